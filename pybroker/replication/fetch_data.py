"""The data that the fetch and produce handlers and the replicas pass to each other: plain, and cheap to make.

The budget is one object per partition and request; those two classes are in `partition_data`. The objects are mutable, but
no code changes one that it received.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.model import NO_BROKER_ID, NO_OFFSET, BrokerId, Offset, TopicId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.replication.partition_data import NO_PREFERRED_REPLICA, FetchPartition, FetchPartitionData, session_key

if TYPE_CHECKING:
    from pybroker.records.errors import RecordError

__all__ = [
    "CONSUMER_REPLICA_ID",
    "HARD_LIMIT_VERSION_MAX",
    "NO_PREFERRED_REPLICA",
    "REFUSED",
    "SETTLED",
    "UNLIMITED_RESPONSE_BYTES",
    "ClientMetadata",
    "FetchIsolation",
    "FetchParams",
    "FetchPartition",
    "FetchPartitionData",
    "FetchResults",
    "PartitionProduceResult",
    "ProduceResults",
    "SessionKey",
    "Unsettled",
    "fetch_params",
    "session_key",
]

CONSUMER_REPLICA_ID: Final = NO_BROKER_ID

HARD_LIMIT_VERSION_MAX: Final = 2
"""Up to this Fetch version a partition's limit cuts even its first message; there is no limit on the response (KIP-74)."""

UNLIMITED_RESPONSE_BYTES: Final = 2_000_000_000
"""The limit of the response in these versions: a response's size prefix ends at 2 GiB - 1, and the rest of it needs room
too.
"""


SETTLED: Final = NO_OFFSET
REFUSED: Final = Offset(-2)
"""Used instead of the offset that an append must reach before its result is valid: nothing was appended, so the result
is final.
"""


class FetchIsolation(IntEnum):
    """The offset up to which a fetch may read."""

    LOG_END = 0  # followers
    HIGH_WATERMARK = 1  # read_uncommitted
    TXN_COMMITTED = 2  # read_committed


_LOG_END, _HIGH_WATERMARK, _TXN_COMMITTED = FetchIsolation  # looking up a member costs more than the decision by it


class ClientMetadata(NamedTuple):
    """The client that fetches, to choose a replica near it (KIP-392); from Fetch v11."""

    rack_id: str
    client_id: str
    host: str


@dataclass(slots=True)
class FetchParams:
    """The parameters of a whole fetch request. `fetch_params` has the rules of the limits.

    `is_continued`: an earlier step of the same fetch has read a batch, so none need be read beyond the limits.
    """

    replica_id: BrokerId
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: FetchIsolation
    hard_max_bytes_limit: bool
    client: ClientMetadata | None = None
    is_continued: bool = False

    @property
    def is_from_follower(self) -> bool:
        """Whether a broker replicates, rather than a client reads."""
        return self.replica_id >= 0

    @property
    def fetch_only_leader(self) -> bool:
        """Whether a follower must refuse: to other brokers, and to clients that cannot read from followers."""
        return self.replica_id >= 0 or self.client is None


def fetch_params(
    *,
    version: int,
    replica_id: BrokerId,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    is_read_committed: bool,
    broker_fetch_max_bytes: int,
    client: ClientMetadata | None = None,
) -> FetchParams:
    """Return the request's parameters within the broker's limits.

    From version 3 the response is limited by the smaller of the request's `max_bytes` and the broker's
    `fetch.max.bytes`. Before version 3 it is not limited at all. `min_bytes` is never more than that limit, or the
    fetch could only time out.
    """
    hard = version <= HARD_LIMIT_VERSION_MAX
    limit = UNLIMITED_RESPONSE_BYTES if hard else max(0, min(max_bytes, broker_fetch_max_bytes))
    isolation = _LOG_END if replica_id >= 0 else _TXN_COMMITTED if is_read_committed else _HIGH_WATERMARK
    return FetchParams(replica_id, max_wait_ms, min(min_bytes, limit), limit, isolation, hard, client)


SessionKey = tuple[str | TopicId | None, int]


FetchResults = list[tuple[FetchPartition, FetchPartitionData]]


class PartitionProduceResult(NamedTuple):
    """The result for one partition of a produce request.

    `log_append_time_ms` is -1 for CreateTime topics; `record_errors` names the invalid records of a refused batch.
    """

    error_code: ErrorCode = ErrorCode.NONE
    base_offset: Offset = NO_OFFSET
    log_append_time_ms: int = -1
    log_start_offset: Offset = NO_OFFSET
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None


ProduceResults = dict[TopicPartition, PartitionProduceResult]

Unsettled = dict[TopicPartition, Offset]
"""The offset (exclusive) that each partition must reach, replicated or durable, before its result is valid."""
