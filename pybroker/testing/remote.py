"""The faults, the clock and the requests of a broker that is a process, by its API, with the methods of those in this process."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pybroker.admin.client import Access, ApiError, request
from pybroker.clock import SystemClock
from pybroker.faults.faults import rules_of_file
from pybroker.faults.rule import COUNTS, Rule, RuleError, rule_of
from pybroker.faults.trail import LENGTH, SeenRequest
from pybroker.testing.place import NotRunningError
from pybroker.times.clock import REAL_CLOCK, RealClockError, duration_ms, parts_of
from pybroker.times.lanes import LOGS
from pybroker.times.stored import offsets_ms_of, write_offsets_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from pybroker.times.clock import Duration

RESPONSE_S: Final = 120.0
CONFLICT: Final = 409


class Api:
    """The API of a broker. `url` is empty while the broker does not run."""

    def __init__(self) -> None:
        self.url = ""
        self.access = Access()

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Return the response. Raises ApiError, and OSError."""
        if not self.url:
            raise NotRunningError
        try:
            return request(self.url, method, path, body, access=self.access, response_s=RESPONSE_S)
        except http.client.HTTPException as error:
            raise ConnectionError(f"{self.url}{path}: {error!r}") from error


def requests_of(api: Api) -> list[SeenRequest]:
    """Return the last requests of clients, oldest first. Raises ApiError, and OSError."""
    return [
        SeenRequest(**{
            **one,
            "partitions": frozenset((each["topic"], each["partition"]) for each in one["partitions"]),
            **{name: tuple(one[name]) for name in ("topics", "groups", "transactional_ids")},
        })
        for one in api.request("GET", f"/v1/requests?limit={LENGTH}")["requests"]
    ]  # fmt: skip


class RemoteRule(Rule):
    """A rule of a broker that is a process: its counts are those there."""

    def __init__(self, faults: RemoteFaults, **fields: Any) -> None:
        self._faults = faults
        super().__init__(**fields)

    @property
    def seen(self) -> int:
        """How many requests have met the conditions."""
        return self._faults.counts_of(self.name)["seen"]

    @seen.setter
    def seen(self, _value: int) -> None:
        """Ignore the value with which each rule begins."""

    @property
    def count(self) -> int:
        """The number of requests of which something became."""
        return self._faults.counts_of(self.name)["count"]

    @count.setter
    def count(self, _value: int) -> None:
        """Ignore the value with which each rule begins."""


class RemoteFaults:
    """The rules of a broker that is a process, over all its lives. The methods are those of Faults."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._rules: dict[str, RemoteRule] = {}  # those that were added here
        self._there: dict[str, dict[str, Any]] = {}  # those of the process, as they were when it was last looked at
        self._last: dict[str, dict[str, Any]] = {}  # the same, and those that were removed
        self._has_begun = False

    def begin(self) -> None:
        """Note the rules of the first process; give a further one those of the former, with their counts."""
        if self._has_begun:
            self._api.request("DELETE", "/v1/faults")
            for one in self._there.values():
                self._api.request("POST", "/v1/faults", one)
        else:
            self._has_begun = True
            self.look()

    def add(self, **fields: Any) -> Rule:
        """Add a rule with the fields of Rule, and return it. Raises RuleError, also for a name that another rule has."""
        rule_of(fields)
        return self._put(RemoteRule(self, **fields))

    def put(self, rule: Rule) -> Rule:
        """Add a rule, and return one that counts in the process. Raises RuleError for a name that another rule has."""
        return self.add(**_fields(rule.as_data()))

    def load(self, path: Path | str) -> list[Rule]:
        """Add the rules of a file of JSON or YAML, which is a list of them. Raises OSError, ValueError, and RuleError."""
        return [self.put(rule) for rule in rules_of_file(path)]

    def remove(self, name: str) -> None:
        """Remove a rule. Raises KeyError for a name that none has."""
        self.rules[name]
        self._last[name] = self._api.request("DELETE", f"/v1/faults/{quote(name, safe='')}")
        del self._there[name]

    def clear(self) -> None:
        """Remove all rules."""
        self._note(self._api.request("DELETE", "/v1/faults"))
        self._there = {}

    @property
    def rules(self) -> dict[str, Rule]:
        """The rules by name, in their order, with their counts."""
        self.look()
        return {name: self._rules.get(name) or RemoteRule(self, **_fields(one)) for name, one in self._there.items()}

    def counts_of(self, name: str) -> dict[str, int]:
        """Return the counts of a rule; the last ones, if it was removed."""
        if self._api.url:
            self.look()
        return {one: self._last.get(name, {}).get(one, 0) for one in COUNTS}

    def forget(self) -> None:
        """Forget the rules, so that the next process has none of them."""
        self._there = {}

    def look(self) -> None:
        """Note the rules of the process. Raises ApiError, and OSError."""
        self._note(self._api.request("GET", "/v1/faults"))

    def _put(self, rule: RemoteRule) -> Rule:
        try:
            added = self._api.request("POST", "/v1/faults", _fields(rule.as_data()))
        except ApiError as error:
            raise RuleError(str(error)) from error
        self._there[rule.name] = self._last[rule.name] = added
        self._rules[rule.name] = rule
        return rule

    def _note(self, listed: dict[str, Any]) -> None:
        self._there = {one["name"]: one for one in listed["faults"]}
        self._last |= self._there


class RemoteClock:
    """The time of a broker that is a process."""

    def __init__(self, api: Api, path: Callable[[], Path] | None) -> None:
        """`path()` is where the time that has passed is kept while the process does not run; None for the machine's time."""
        self._api, self._path = api, path

    def time_ms(self) -> int:
        """Return the broker's time in ms since 1970-01-01 UTC, which its logs have."""
        if self._api.url:
            return int(self._api.request("GET", "/v1/clock")["time_ms"])
        return SystemClock().time_ms() + self.passed_ms().get(LOGS, 0)

    def advance(self, duration: Duration, *, only: Collection[str] | None = None) -> None:
        """Let time pass for the broker, and return when everything is done that was due meanwhile.

        Args:
            duration: as "7d", "90m", "1h 30m", "30s", "500ms", or a timedelta.
            only: the parts for which it passes, of "logs", "groups", "transactions", "requests"; all by default.

        Raises RealClockError for a broker that was made without `virtual_time`, and ValueError for a bad argument.
        """
        delta_ms, parts = duration_ms(duration), parts_of(only)
        if self._path is None:
            raise RealClockError(REAL_CLOCK)
        if self._api.url:
            self._api.request("POST", "/v1/clock/advance", {"by": f"{delta_ms}ms", "only": [*parts]})
        else:
            self.put_back({part: passed_ms + delta_ms * (part in parts) for part, passed_ms in self.passed_ms().items()})

    def passed_ms(self) -> dict[str, int]:
        """Return how much more time has passed than for the machine, while the process does not run."""
        return {} if self._path is None else offsets_ms_of(self._path())

    def put_back(self, passed_ms: dict[str, int]) -> None:
        """Let the next process begin with this."""
        if self._path is not None:
            write_offsets_ms(self._path(), passed_ms)


def _fields(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in COUNTS}
