"""The data that the fetch and produce handlers and the replicas pass to each other: plain, and cheap to make.

The budget is one object per partition and request, so these are mutable slotted dataclasses. Treat them as immutable
nevertheless: a result without records or changes is shared between requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.model import (
    NO_BROKER_ID,
    NO_LEADER_EPOCH,
    NO_OFFSET,
    ZERO_TOPIC_ID,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
    new_tuple,
)
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.log.file_records import FileRecords
    from pybroker.log.leader_epoch_cache import EpochEndOffset
    from pybroker.log.results import LogOffsetMetadata
    from pybroker.log.transaction_index import AbortedTransaction
    from pybroker.records.errors import RecordError

CONSUMER_REPLICA_ID: Final = NO_BROKER_ID
NO_PREFERRED_REPLICA: Final = -1

HARD_LIMIT_VERSION_MAX: Final = 2
"""Up to this Fetch version a partition's limit cuts even its first message; there is no limit on the response (KIP-74)."""

UNLIMITED_RESPONSE_BYTES: Final = 2_000_000_000
"""The limit of the response in these versions: a response's size prefix ends at 2 GiB - 1, and the rest of it needs room
too.
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
    """The parameters of a whole fetch request. `fetch_params` has the rules of the limits."""

    replica_id: BrokerId
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: FetchIsolation
    hard_max_bytes_limit: bool
    client: ClientMetadata | None = None

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


def session_key(topic: str | None, topic_id: TopicId, partition: int) -> SessionKey:
    """Return the partition's key within a fetch session: the topic's id if the request uses ids, otherwise its name."""
    return (topic if topic_id == ZERO_TOPIC_ID else topic_id, partition)


class FetchPartition:
    """One partition of a fetch request. Immutable.

    Attributes:
        topic: None if the request names an unknown topic id: the response is UNKNOWN_TOPIC_ID, without reading.
        topic_id: ZERO_TOPIC_ID before version 13.
        log_start_offset: the follower's; -1 from a client.
        max_bytes: the partition's own limit.
        current_leader_epoch, last_fetched_epoch: -1 if unknown.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "topic",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic: str | None,
        topic_id: TopicId,
        partition: int,
        *,
        fetch_offset: Offset,
        max_bytes: int,
        log_start_offset: Offset = NO_OFFSET,
        current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
        last_fetched_epoch: LeaderEpoch = NO_LEADER_EPOCH,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.topic_partition = new_tuple(TopicPartition, (topic or "", partition))
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.log_start_offset = log_start_offset
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch

    @property
    def session_key(self) -> SessionKey:
        """The partition's key within a fetch session."""
        return session_key(self.topic, self.topic_id, self.partition)

    def __repr__(self) -> str:
        return f"FetchPartition({self.topic_partition}, fetch_offset={self.fetch_offset}, max_bytes={self.max_bytes})"


@dataclass(slots=True)
class FetchPartitionData:
    """The result for one partition. `records` is owned by the code that gets the result; None if there are none.

    `fetch_offset_metadata` is the position of the fetch offset in the log, for a fetch that must wait; the response
    does not have it. `cut_batch_size` is the size of the first batch if `records` end inside it (before Fetch v3),
    otherwise 0.
    """

    error_code: ErrorCode = ErrorCode.NONE
    high_watermark: Offset = NO_OFFSET
    last_stable_offset: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET
    records: FileRecords | None = None
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    diverging_epoch: EpochEndOffset | None = None
    preferred_read_replica: int = NO_PREFERRED_REPLICA
    fetch_offset_metadata: LogOffsetMetadata | None = None
    cut_batch_size: int = 0


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
