"""The clients of a cluster that commands use, and how its errors read: one line with Kafka's name of the error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.client.errors import ClientError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.spark.errors import PipelineError
from pybroker.terminal.profiles import DEFAULT_BOOTSTRAP
from pybroker.tools.admin import API_VERSIONS_VERSION, RefusedError
from pybroker.tools.errors import CommandError
from pybroker.tools.groups_admin import Groups
from pybroker.tools.leaders import list_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pybroker.tools.target import Target

COORDINATOR_S: Final = 30.0
TIMEOUT_MS: Final = 30_000
TRANSACTION: Final = 1
LIST_OFFSETS_VERSION: Final = 5
FIND_COORDINATOR_VERSION: Final = 3
"""The last version with one key."""
NAMES: Final = {int(code): code for code in ErrorCode}


class FailedError(Exception):
    """A command cannot do what it was called for; the text is one line for a person."""


EXPECTED: Final = (FailedError, RefusedError, ClientError, CommandError, PipelineError)
"""The errors that `failed` knows."""


def failed(error: Exception, bootstrap: str = "") -> FailedError:
    """Return one of the EXPECTED errors as a line."""
    if isinstance(error, FailedError):
        return error
    if isinstance(error, RefusedError):
        return FailedError(f"{name_of(error.code)}: {error}")
    if isinstance(error, ClientError):
        is_sentence = error.text != str(error)
        return FailedError(error.text if is_sentence else f"no broker responds: {error.text}{advice(error.text, bootstrap)}")
    return FailedError(str(error))


def advice(reason: str, bootstrap: str) -> str:
    """Return what a person may want to do when nothing listens where a new user's broker would."""
    return "; `pybroker start` runs one" if bootstrap == DEFAULT_BOOTSTRAP and "refused" in reason else ""


def name_of(code: int) -> str:
    """Return Kafka's name of an error."""
    return NAMES[code].name if code in NAMES else f"error {code}"


def check(what: str, code: int, message: str | None = None, meant: Callable[[], str] = str) -> None:
    """Raise FailedError for a code that is not 0. `meant` returns what `did_you_mean` does, if it has anything to suggest."""
    if code:
        sentence = message or (NAMES[code].message if code in NAMES else "")
        text = f"{what}: {name_of(code)}{': ' if sentence else ''}{sentence}".splitlines()[0]
        suggestion = meant()
        raise FailedError(text.rstrip(".") + suggestion if suggestion else text)


class Cluster(Groups):
    """A client of a cluster: requests in the highest versions that both sides support. A context manager."""

    def __init__(self, target: Target) -> None:
        super().__init__(target, COORDINATOR_S)
        self.target = target

    def call(self, request: object, *, broker_id: int | None = None) -> Any:
        """Return the response of a broker, of any one by default. Raises ClientError."""
        return self.ask(request, None, broker_id=broker_id)

    def versions(self, broker_id: int | None = None) -> dict[int, tuple[int, int]]:
        """Return the versions of each API that a broker serves, any one by default. Raises ClientError."""
        connection = self._connected(broker_id)
        if not connection.versions:
            connection.ask_versions(API_VERSIONS_VERSION)
        return connection.versions

    def metadata(self, names: Iterable[str] | None = None) -> Any:
        """Return the brokers and these topics, or all, as a broker sees them. No topic is created."""
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        return self.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False))

    def ends(self, partitions: Mapping[str, Sequence[int]], timestamp: int) -> dict[tuple[str, int], int]:
        """Return the offset at a time, EARLIEST or LATEST of each partition that has a leader."""
        found = list_offsets(self, partitions, timestamp, version=LIST_OFFSETS_VERSION, wait_s=0)
        return {(topic, one.partition_index): one.offset for topic, one in found if not one.error_code}

    def patiently(self, ask: Callable[[], Any]) -> Any:
        """Return a response, requested again while its error shows that a coordinator is coming up. Raises ClientError."""
        return self._patiently("", ask, lambda found: int(found.error_code))

    def group_coordinator(self, group_id: str) -> tuple[str, int]:
        """Return the address of the broker that coordinates a group. Raises RefusedError, ClientError."""
        found = self._coordinator(group_id)
        return str(found.host), int(found.port)

    def transaction_coordinator(self, transactional_id: str) -> int:
        """Return the id of the broker that coordinates a transactional id. Raises FailedError."""
        request = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION)
        found = self.patiently(lambda: self.ask(request, FIND_COORDINATOR_VERSION))
        check(f"transactional id {transactional_id}", found.error_code, found.error_message)
        return int(found.node_id)
