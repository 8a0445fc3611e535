"""Rules about requests that go wrong: which requests, and what becomes of them. A rule is plain data, in Python as in files.

    {"api": "Produce", "topic": "orders", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2}

A rule without a condition is about every request. Names may have the wildcards `*`, `?` and `[...]`. The rules about disks are
about no request: they are in force as long as they are in the list.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from random import Random
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.registry import APIS
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.faults.trail import SeenRequest

BEFORE: Final = "before"
AFTER: Final = "after"
ON_THE_WIRE: Final = ("error", "delay_s", "drop", "close", "cut", "throttle_ms", "corrupt_crc", "mute", "mute_s")
IN_THE_STATE: Final = ("fence", "rebalance", "expire", "end_session")
"""Actions that change the state of the broker before it handles the request."""
OF_DISKS: Final = ("disk_delay_s", "disk_full", "disk_error")
ACTIONS: Final = (*ON_THE_WIRE, *IN_THE_STATE, *OF_DISKS)
ONCE: Final = frozenset({"mute_s", *IN_THE_STATE})
"""Actions that happen once, unless `times` or `nth` is set: a client would meet them with each of its requests."""
FETCH: Final = "Fetch"

OPERATIONS: Final = ("write", "read", "sync")
DISK_ERRORS: Final = ("EIO", "ENOSPC")
OF_REQUESTS: Final = ("api", "version", "topic", "partition", "group", "transactional_id", "producer_id", "client_id", "when")
_COUNTED: Final = ("nth", "times", "probability")
_INT_MAX: Final = (1 << 31) - 1
_S_MAX: Final = 1e9
BOUNDS: Final[dict[str, tuple[float, float]]] = {
    "partition": (0, _INT_MAX),
    "producer_id": (0, (1 << 63) - 1),
    "nth": (1, _INT_MAX),
    "times": (1, _INT_MAX),
    "probability": (0, 1),
    "after_s": (0, _S_MAX),
    "for_s": (0.001, _S_MAX),
    "delay_s": (0, _S_MAX),
    "cut": (0, _INT_MAX),
    "throttle_ms": (0, _INT_MAX),
    "mute_s": (0.001, _S_MAX),
    "disk_delay_s": (0, _S_MAX),
}
"""The least and the largest value of each field that is a number."""

OF_MEMBERS: Final = frozenset({"Heartbeat", "ConsumerGroupHeartbeat", "OffsetCommit", "TxnOffsetCommit"})
OF_PRODUCERS: Final = frozenset({"Produce", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"})
TRIGGERS: Final = {"fence": OF_PRODUCERS, "rebalance": OF_MEMBERS, "expire": OF_MEMBERS}
"""The requests that can let these happen: those of clients that are producers or members by then."""
COUNTS: Final = ("seen", "count")
DRAWS_MAX: Final = 1_000_000

_numbers: Final = itertools.count(1)
_APIS: Final = {served.name for served in APIS.values()}


class RuleError(ValueError):
    """A rule that cannot be. The text names the rule, the field and the reason."""


@dataclass(kw_only=True)
class Rule:
    """One rule. Exactly one of the fields of `ACTIONS` is set.

    Which requests
        api: Kafka's name of the API, as `Produce`; version: a version, or the first and the last of several.
        topic, partition, group, transactional_id: a request that names one that fits; a partition is one of the topic.
        producer_id: for `fence`, the present producer id of the transactional id.
        client_id: that of the client.
    How many of them
        nth: only the nth one, from 1 on; times: at most this many.
        probability: the share, drawn from `seed`, the same in each run.
        after_s, for_s: only from this many seconds after the rule was added on, and for this long.
    What becomes of a request
        error: it gets this error, by Kafka's name, for everything that it names.
        delay_s: its response is sent this many seconds late.
        drop: it gets no response, and nothing else on its connection does.
        close: its connection is closed.
        cut: this many bytes of its response are sent, then its connection is closed.
        throttle_ms: its response has this throttle time.
        corrupt_crc: the batches of a Fetch response have a wrong checksum.
        mute: its connection is read no more until the rule is removed; then the request is handled as if it came by then.
        mute_s: the same for this many seconds, or until the rule is removed.
        `error`, `drop` and `close` act before the broker does what the request asks for, unless `when` is `after`.
    What happens to the broker before it handles a request
        fence: its transactional id gets another producer, so the one that sent the request is fenced.
        rebalance: its group begins a rebalance.
        expire: the member that sent it is removed, as at the end of its session.
        end_session: the session of the broker with the cluster ends: others lead until it has joined again.
    What becomes of the disks of the broker
        disk_delay_s: an operation takes this many seconds longer; operation: `write`, `read` or `sync`, all by default.
        disk_full: the volume of a log directory has no room for records.
        disk_error: a log directory fails with this error, EIO or ENOSPC, and is offline until the next start.
        directory: that of `disk_full` and `disk_error`, all by default.

    Attributes:
        seen: how many requests, or operations of a disk, have met the conditions.
        count: of how many of them something became; of `disk_full` and `disk_error`, the number of directories.
    """

    name: str = ""
    api: str = "*"
    version: int | tuple[int, int] | None = None
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    producer_id: int | None = None
    client_id: str | None = None
    nth: int | None = None
    times: int | None = None
    probability: float = 1.0
    seed: int = 0
    after_s: float = 0.0
    for_s: float | None = None
    error: str | None = None
    delay_s: float | None = None
    drop: bool | None = None
    close: bool | None = None
    cut: int | None = None
    throttle_ms: int | None = None
    corrupt_crc: bool | None = None
    mute: bool | None = None
    mute_s: float | None = None
    fence: bool | None = None
    rebalance: bool | None = None
    expire: bool | None = None
    end_session: bool | None = None
    disk_delay_s: float | None = None
    disk_full: bool | None = None
    disk_error: str | None = None
    operation: str | None = None
    directory: str | None = None
    when: str = BEFORE
    seen: int = field(default=0, init=False)
    count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.name = self.name or f"rule-{next(_numbers)}"
        self._random = Random(self.seed)  # noqa: S311  the same in each run
        self._check()
        if self.action in ONCE and self.nth is None and self.times is None:
            self.times = 1

    @property
    def action(self) -> str:
        """The field that decides what becomes of a request, or of a disk."""
        return next(name for name in ACTIONS if self._is_set(name))

    def _is_set(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not None and value is not False

    @property
    def is_of_disks(self) -> bool:
        """Whether the rule is about disks, and about no request."""
        return self.action in OF_DISKS

    @property
    def failure(self) -> OSError:
        """The error of `disk_error`."""
        assert self.disk_error is not None
        return OSError(getattr(errno, self.disk_error), f"the rule {self.name} lets the disk fail")

    @property
    def code(self) -> ErrorCode:
        """The code of `error`."""
        assert self.error is not None
        return ErrorCode[self.error]

    def takes(self, request: SeenRequest, age_s: float) -> bool:
        """Count a request, and return whether something becomes of it. `age_s`: seconds since the rule was added."""
        if not self._fits(request) or age_s < self.after_s or (self.for_s is not None and age_s >= self.after_s + self.for_s):
            return False
        return self.strikes()

    def strikes(self) -> bool:
        """Count a request, or an operation of a disk, that meets the conditions, and return whether something becomes of it."""
        self.seen += 1
        is_taken = (
            (self.nth is None or self.seen == self.nth)
            and (self.times is None or self.count < self.times)
            and (self.probability >= 1.0 or self._random.random() < self.probability)
        )
        self.count += is_taken
        return is_taken

    def take_back(self) -> None:
        """Do not count a request of which nothing could become, because its broker does not know what it names."""
        self.seen -= 1
        self.count -= 1

    def resume(self, *, seen: int, count: int) -> None:
        """Continue an earlier rule with the same fields: its counts, and its draws."""
        self.seen, self.count = seen, count
        if self.nth is None and self.probability < 1.0:
            for _ in range(min(seen, DRAWS_MAX)):
                self._random.random()

    def as_data(self) -> dict[str, Any]:
        """Return the fields that are not as by default, and the counts."""
        data = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}
        return {**data, "seen": self.seen, "count": self.count}

    def _fits(self, request: SeenRequest) -> bool:
        return (
            fnmatchcase(request.api, self.api)
            and request.api in TRIGGERS.get(self.action, _APIS)
            and (self.version is None or self._lowest <= request.version <= self._highest)
            and (self.client_id is None or fnmatchcase(request.client_id, self.client_id))
            and _any_fits(self.topic, request.topics)
            and _any_fits(self.group, request.groups)
            and _any_fits(self.transactional_id, request.transactional_ids)
            and (self.partition is None or self._names_partition(request))
        )

    def _names_partition(self, request: SeenRequest) -> bool:
        topic = "*" if self.topic is None else self.topic
        return any(number == self.partition and fnmatchcase(name, topic) for name, number in request.partitions)

    @property
    def _lowest(self) -> int:
        return self.version if isinstance(self.version, int) else (self.version or (0, 0))[0]

    @property
    def _highest(self) -> int:
        return self.version if isinstance(self.version, int) else (self.version or (0, 0))[-1]

    def _check(self) -> None:
        """Raise RuleError for a rule that can never do what it is meant for."""
        given = [name for name in ACTIONS if self._is_set(name)]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise RuleError(f"{self.name}: a rule has exactly one of {', '.join(ACTIONS)}, not {found}")
        if not any(fnmatchcase(api, self.api) for api in _APIS):
            raise RuleError(f"{self.name}: api={self.api}: no API that is served has this name, such as Produce")
        if self.corrupt_crc and self.api != FETCH:
            raise RuleError(f"{self.name}: corrupt_crc is about api={FETCH} alone")
        if self.is_of_disks:
            self._check_disks()
        else:
            self._refuse(("operation", "directory"), "it is about disks, and this rule is about requests")
        if not self.fence:
            self._refuse(("producer_id",), "it is a condition of fence alone")
        triggers = TRIGGERS.get(self.action)
        if triggers is not None and not any(fnmatchcase(api, self.api) for api in triggers):
            raise RuleError(f"{self.name}: api={self.api}: {self.action} is about {', '.join(sorted(triggers))}")
        if self.error is not None and (self.error not in ErrorCode.__members__ or self.error == ErrorCode.NONE.name):
            raise RuleError(f"{self.name}: error={self.error}: no error has this name, such as NOT_LEADER_OR_FOLLOWER")
        if self.when not in (BEFORE, AFTER):
            raise RuleError(f"{self.name}: when={self.when}: it is {BEFORE} or {AFTER}")
        if isinstance(self.version, tuple) and (len(self.version) != 2 or self.version[0] > self.version[1]):
            raise RuleError(f"{self.name}: version={self.version}: it is one, or the first and the last")
        for name, (least, largest) in BOUNDS.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= largest:
                raise RuleError(f"{self.name}: {name}={value}: it is from {least:g} to {largest:g}")

    def _check_disks(self) -> None:
        self._refuse(OF_REQUESTS, f"it is about requests, and {self.action} is about disks")
        if self.disk_delay_s is None:
            self._refuse(("operation", *_COUNTED), f"{self.action} is no matter of single operations")
        else:
            self._refuse(("directory",), "disk_delay_s is about all log directories")
        if self.operation not in (None, *OPERATIONS):
            raise RuleError(f"{self.name}: operation={self.operation}: it is one of {', '.join(OPERATIONS)}")
        if self.disk_error not in (None, *DISK_ERRORS):
            raise RuleError(f"{self.name}: disk_error={self.disk_error}: it is one of {', '.join(DISK_ERRORS)}")

    def _refuse(self, names: tuple[str, ...], why: str) -> None:
        """Raise RuleError if one of the fields is set."""
        for one in fields(self):
            if one.name in names and getattr(self, one.name) != one.default:
                raise RuleError(f"{self.name}: {one.name}={getattr(self, one.name)}: {why}")


def rule_of(data: Mapping[str, Any]) -> Rule:
    """Return the rule with some fields. With `seen` and `count`, as `as_data` returns them, it continues that one.

    Raises RuleError.
    """
    counts = {name: data[name] for name in COUNTS if name in data}
    for name, value in counts.items():
        _check_type(name, value, "int")
    data = {name: value for name, value in data.items() if name not in COUNTS}
    known = {one.name: str(one.type) for one in fields(Rule) if one.init}
    if unknown := data.keys() - known.keys():
        names = ", ".join(sorted(map(str, unknown)))
        raise RuleError(f"{data.get('name', data)}: a rule has no field {names}, but {', '.join(known)}")
    for name, value in data.items():
        _check_type(name, value, known[name])
    version = data.get("version")
    rule = Rule(**{**data, "version": tuple(version)} if isinstance(version, list) else data)
    rule.resume(seen=counts.get("seen", 0), count=counts.get("count", 0))
    return rule


def _check_type(name: str, value: Any, wanted: str) -> None:
    """Raise RuleError unless a value has the type of its field; a list is a tuple in a file."""
    kinds = {"str": str, "int": int, "float": (int, float), "bool": bool, "None": type(None), "tuple[int, int]": (list, tuple)}
    allowed = [kinds[part.strip()] for part in wanted.split("|")]
    is_flag = isinstance(value, bool)
    if not any(isinstance(value, kind) and (kind is bool or not is_flag) for kind in allowed):  # type: ignore[arg-type]
        raise RuleError(f"{name}={value!r}: it must be {wanted}")


def _any_fits(pattern: str | None, names: tuple[str, ...]) -> bool:
    return pattern is None or any(fnmatchcase(name, pattern) for name in names)
