# cython: annotation_typing=False
"""The wanted part of one partition in a fetch, and what was read of it, in Python; `_partition_data_native` is this same text,
compiled with the types of `_partition_data_native.pxd`, so native code reads and sets the attributes without looking them up.

Each attribute is written here and in `_reading_native`. After a change here the extension must be built again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.model import NO_LEADER_EPOCH, NO_OFFSET, ZERO_TOPIC_ID, LeaderEpoch, Offset, TopicId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.log.indexes.transaction_index import AbortedTransaction
    from pybroker.log.leader_epoch_cache import EpochEndOffset
    from pybroker.log.results import LogOffsetMetadata
    from pybroker.log.segments.file_records import FileRecords
    from pybroker.replication.fetch_data import SessionKey

__all__ = ["CachedPartition", "FetchPartition", "FetchPartitionData", "ResponseLimit", "is_present_epoch", "session_key"]

NO_PREFERRED_REPLICA = -1
NONE = ErrorCode.NONE


def session_key(topic: str | None, topic_id: TopicId, partition: int) -> SessionKey:
    """Return the partition's key within a fetch session: the topic's id if the request uses ids, otherwise its name."""
    return (topic if topic_id == ZERO_TOPIC_ID else topic_id, partition)


def is_present_epoch(current_leader_epoch: LeaderEpoch, leader_epoch: LeaderEpoch) -> bool:
    """Return whether the leader epoch that a request has, -1 if it has none, is the present one, `leader_epoch`."""
    return current_leader_epoch in (NO_LEADER_EPOCH, leader_epoch)


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
        self.topic_partition = TopicPartition(topic or "", partition)
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.log_start_offset = log_start_offset
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch

    @property
    def session_key(self) -> SessionKey:
        """The partition's key within a fetch session."""
        return session_key(self.topic, self.topic_id, self.partition)

    def means(self, topic_id: TopicId) -> bool:
        """Return whether the request means the topic of this id: it names the same id, or none."""
        return self.topic_id is ZERO_TOPIC_ID or self.topic_id in (ZERO_TOPIC_ID, topic_id)

    def __repr__(self) -> str:
        return f"FetchPartition({self.topic_partition}, fetch_offset={self.fetch_offset}, max_bytes={self.max_bytes})"


class CachedPartition(FetchPartition):
    """A partition of a session: the fields of its last request, and of its last response (`sent_...`).

    A session keeps one of these for each of its partitions, so its size is what a session costs.
    """

    __slots__ = ("sent_high_watermark", "sent_log_start_offset")

    def __init__(self, asked: FetchPartition, topic: str | None, before: CachedPartition | None = None) -> None:
        self.topic = topic
        self.topic_id = asked.topic_id
        self.partition = asked.partition
        self.topic_partition = asked.topic_partition if topic == asked.topic else TopicPartition(topic or "", asked.partition)
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.max_bytes
        self.log_start_offset = asked.log_start_offset
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.sent_high_watermark: Offset = NO_OFFSET if before is None else before.sent_high_watermark
        self.sent_log_start_offset: Offset = NO_OFFSET if before is None else before.sent_log_start_offset

    @property
    def key(self) -> SessionKey:
        """The partition's key within the session. Where requests name topics, no object is made for it."""
        if self.topic is not None and self.topic_id == ZERO_TOPIC_ID:
            return self.topic_partition
        return session_key(self.topic, self.topic_id, self.partition)

    def remember_response(self, data: FetchPartitionData) -> bool:
        """Remember the response. Returns whether it must be sent: anything but "the same as last time, and no records"."""
        must_send = (
            (data.records is not None and data.records.size > 0)
            or data.diverging_epoch is not None
            or data.preferred_read_replica >= 0
        )
        if data.high_watermark != self.sent_high_watermark:
            self.sent_high_watermark = data.high_watermark
            must_send = True
        if data.log_start_offset != self.sent_log_start_offset:
            self.sent_log_start_offset = data.log_start_offset
            must_send = True
        if data.error_code:
            self.sent_high_watermark = NO_OFFSET  # so that a response is sent when the error ends
            must_send = True
        return must_send


class FetchPartitionData:
    """The result for one partition. `records` is owned by the code that gets the result; None if there are none.

    `fetch_offset_metadata` is the position of the fetch offset in the log, for a fetch that must wait; the response
    does not have it. `cut_batch_size` is the size of the first batch if `records` end inside it (before Fetch v3),
    otherwise 0.
    """

    __slots__ = (
        "aborted_transactions",
        "cut_batch_size",
        "diverging_epoch",
        "error_code",
        "fetch_offset_metadata",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "preferred_read_replica",
        "records",
    )

    def __init__(
        self,
        error_code: ErrorCode = NONE,
        *,
        high_watermark: Offset = NO_OFFSET,
        last_stable_offset: Offset = NO_OFFSET,
        log_start_offset: Offset = NO_OFFSET,
        records: FileRecords | None = None,
        aborted_transactions: Sequence[AbortedTransaction] | None = None,
        diverging_epoch: EpochEndOffset | None = None,
        preferred_read_replica: int = NO_PREFERRED_REPLICA,
        fetch_offset_metadata: LogOffsetMetadata | None = None,
        cut_batch_size: int = 0,
    ) -> None:
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.aborted_transactions = aborted_transactions
        self.diverging_epoch = diverging_epoch
        self.preferred_read_replica = preferred_read_replica
        self.fetch_offset_metadata = fetch_offset_metadata
        self.cut_batch_size = cut_batch_size


class ResponseLimit:
    """How much the rest of a response may hold (KIP-74): the first partition with records gives at least one whole batch.

    Attributes:
        bytes_left: what is left of the response's own limit.
        min_one_batch: whether the next partition gives a whole batch even beyond the limits.
    """

    __slots__ = ("bytes_left", "min_one_batch")

    def __init__(self, bytes_left: int, min_one_batch: bool) -> None:
        self.bytes_left = bytes_left
        self.min_one_batch = min_one_batch

    def bytes_max(self, wanted: FetchPartition) -> int:
        """Return how many bytes of this partition the response may hold; negative if the partition's own limit is."""
        return min(self.bytes_left, wanted.max_bytes)

    def take(self, size: int) -> None:
        """Note that the response holds `size` bytes more."""
        if size:
            self.min_one_batch = False
            self.bytes_left = max(0, self.bytes_left - size)
