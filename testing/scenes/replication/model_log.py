"""A model of a log as a list of batch sizes, with only what replicas see of a real log."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from pybroker.config.topic import TopicConfig
from pybroker.log.end import LogEnd
from pybroker.log.leader_epoch_cache import EpochEndOffset
from pybroker.log.results import LogAppendInfo, LogOffsetMetadata
from pybroker.log.segments.fetched_records import EMPTY, FetchedRecords
from pybroker.log.segments.file_records import FileRecords
from pybroker.model import LeaderEpoch, Offset
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pybroker.model import TopicId, TopicPartition


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    segment: int
    position: int
    size: int


class ModelProducers:
    def __init__(self) -> None:
        self.first_unstable_offset: int | None = None
        self.high_watermark = 0
        self.unreplicated = {0: 0}

    def on_high_watermark(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark


class ModelLog(LogEnd):
    """A model of a log.

    `append_as_leader` takes any bytes as a batch of one record; `add` makes batches of any size without bytes.
    """

    # Its own kinds of what a log consists of.
    epochs: Any
    log_end_offset: Any
    log_start_offset: Any
    producers: Any
    recovery_point: Any
    segments: Any
    unsettled_upto: Any

    def __init__(self, topic_id: TopicId, config: TopicConfig | None = None) -> None:
        self.topic_id = topic_id
        self.topic_partition: TopicPartition | None = None
        self.config = config or TopicConfig()
        self.log_start_offset = self.log_end_offset = 0
        self.producers = ModelProducers()
        self.batches: list[Batch] = []
        self.segments = [0]
        self.epochs = []  # epoch, end offset
        self.leads: list[tuple[LeaderEpoch, int]] = []  # epoch, start offset
        self.reads = 0
        self.error: Exception | None = None
        self.recovery_point = self.unsettled_from = self.unsettled_upto = 0
        self.on_settled: Callable[[], None] = lambda: None

    filesystem: Any = SimpleNamespace(is_concurrent=False)

    def cold_lookup(self, _offset: Offset) -> None:
        """Return None, because all of it is in memory."""

    def settle_moved(self) -> None:
        """Do nothing, because all of it is durable."""

    @property
    def is_settled(self) -> bool:
        return self.unsettled_upto <= self.recovery_point

    @property
    def settled_end_offset(self) -> int:
        return self.log_end_offset if self.is_settled else max(self.unsettled_from, self.recovery_point)

    @property
    def end_offset_metadata(self) -> LogOffsetMetadata:
        segment = self.segments[-1]
        if not self.batches:
            return LogOffsetMetadata(Offset(segment), Offset(segment), 0)
        last = self.batches[-1]
        position = last.position + last.size if last.segment == segment else 0
        return LogOffsetMetadata(Offset(last.last_offset + 1), Offset(segment), position)

    def add(self, size: int, record_count: int = 1) -> None:
        end = self.end_offset_metadata
        self.batches.append(Batch(end.offset, end.offset + record_count - 1, end.segment_base_offset, end.position, size))
        self.log_end_offset = self.end_offset_metadata.offset

    def roll(self) -> None:
        if self.segments[-1] != self.log_end_offset:
            self.segments.append(self.log_end_offset)

    def truncate_to(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.last_offset < offset]
        self.segments = [segment for segment in self.segments if segment <= offset] or [offset]
        self.log_end_offset = self.end_offset_metadata.offset

    def append_as_leader(  # type: ignore[override]  # called by position
        self, records: memoryview, leader_epoch: LeaderEpoch, now_ms: int, *_: Any
    ) -> LogAppendInfo:
        if self.error is not None:
            raise self.error
        self.add(len(records))
        offset = self.batches[-1].base_offset
        return LogAppendInfo(
            first_offset=Offset(offset),
            last_offset=Offset(offset),
            max_timestamp=now_ms,
            log_append_time=-1,
            log_start_offset=Offset(self.log_start_offset),
            record_count=1,
            size=len(records),
        )

    def offset_metadata(self, offset: int) -> LogOffsetMetadata:
        if self.error is not None:
            raise self.error
        for batch in self.batches:
            if batch.last_offset >= offset:
                return LogOffsetMetadata(Offset(offset), Offset(batch.segment), batch.position)
        return self.end_offset_metadata

    def aborted_transactions(
        self,
        fetch_offset: int,
        upper_offset: int,
        fetched: FetchedRecords,
    ) -> list[tuple[int, int]]:
        return [(fetch_offset, upper_offset)]

    def lead(self, leader_epoch: LeaderEpoch, start_offset: int) -> None:
        self.leads.append((leader_epoch, start_offset))

    def follow(self) -> None:
        pass

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEndOffset:
        known = [entry for entry in self.epochs if entry.epoch <= epoch]
        return known[-1] if known else EpochEndOffset(LeaderEpoch(-1), Offset(-1))

    def read(self, offset: int, *, bytes_max: int, upper_offset: int, min_one_batch: bool) -> FetchedRecords:
        self.reads += 1
        if self.error is not None:
            raise self.error
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        found = next((batch for batch in self.batches if batch.last_offset >= offset), None)
        if found is None or offset >= upper_offset:
            return FetchedRecords(records=EMPTY, size=0, offset_metadata=self.offset_metadata(offset))
        start = LogOffsetMetadata(Offset(offset), Offset(found.segment), found.position)
        limit = max(bytes_max, found.size) if min_one_batch else bytes_max
        in_segment = [batch for batch in self.batches if batch.segment == found.segment and batch.last_offset < upper_offset]
        size = min(limit, sum(batch.size for batch in in_segment if batch.position >= found.position))
        records: Any = FileRecords(None, found.position, size) if size else EMPTY  # type: ignore[arg-type]  # nothing reads it
        return FetchedRecords(
            records=records,
            size=size,
            offset_metadata=start,
            first_batch_size=found.size,
            is_first_incomplete=limit < found.size,
        )


class ModelLogManager:
    """A log manager that makes model logs and fails on request."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, ModelLog] = {}
        self.failing: set[TopicPartition] = set()
        self.deleted: list[TopicPartition] = []
        self.high_watermarks: dict[TopicPartition, int] = {}

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        return self.high_watermarks

    def create(self, topic_partition: TopicPartition, topic_id: TopicId, config: TopicConfig, *, is_new: bool = True) -> ModelLog:
        if topic_partition in self.failing:
            raise OSError("no space left")
        if topic_partition not in self.logs:
            self.logs[topic_partition] = ModelLog(topic_id, config)
            self.logs[topic_partition].topic_partition = topic_partition
        return self.logs[topic_partition]

    def get(self, topic_partition: TopicPartition) -> ModelLog | None:
        return self.logs.get(topic_partition)

    def delete(self, topic_partition: TopicPartition, _topic_id: TopicId) -> None:
        self.deleted.append(topic_partition)
        self.logs.pop(topic_partition, None)
