"""The state of a log: what the operations of a log read and change, and the little that they share.

`log.py` has the operations as methods; each is a function in a module of its own, which takes a `LogState`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pybroker.log.append_rules import rules_of
from pybroker.log.checkpoints import checkpoint
from pybroker.log.end import LogEnd
from pybroker.log.flush_state import FlushState
from pybroker.log.leader_epoch_cache import LeaderEpochCache
from pybroker.log.producers.producer_state import ProducerState
from pybroker.log.results import LogOffsetMetadata
from pybroker.log.segments.segment import LogSegment
from pybroker.log.segments.segments import Segments
from pybroker.model import FIRST_OFFSET, LeaderEpoch, Offset
from pybroker.records.rules import INFLATION_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.clock import Clock
    from pybroker.config.topic import TopicConfig
    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.files.filesystem import Filesystem
    from pybroker.log.results import LostRange
    from pybroker.model import TopicId, TopicPartition
    from pybroker.sharing.work import Work

PRODUCER_ID_EXPIRATION_MS = 86_400_000


@dataclass(slots=True, kw_only=True)
class LogServices:
    """The objects that all logs of a broker share.

    `recovery_threads`: the number per log directory, while logs are opened after an unclean stop. `inflation_max`: the records
    of a produce request may inflate to this many times `max.message.bytes`.
    """

    clock: Clock
    recovery_threads: int = 1
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    inflation_max: int = INFLATION_MAX
    jitter: random.Random = field(default_factory=random.Random)


def nothing() -> None:
    """Do nothing."""


class Replacing(Protocol):
    """A segment that takes the place of others; `cleaner.replace` has it."""

    is_serving: bool

    def settle(self) -> None:
        """End the replacement now, in either way, because segments of the log are about to be deleted. Raises OSError."""

    def finish(self) -> Work[None]:
        """Give all files their final names. After OSError it may be called again."""


class LogState(LogEnd):
    """The state of one partition's log, as `log.Log` opens or creates it.

    Attributes:
        log_start_offset: records below it are logically deleted.
        log_end_offset: offset of the next record.
        recovery_point: the data below it is durable.
        unflushed_messages: records appended since the last flush was begun, which `flush.messages` counts.
        last_flush_ms: when the last flush of everything was begun, or the log was opened; of the monotonic clock.
        unsettled_from, unsettled_upto: records between them, above the recovery point, must be durable before a client sees them.
        on_settled: called on the loop when `settled_end_offset` has moved because a flush has finished.
        config: replaceable at any time.
        truncations: how often records at the end were dropped.
        is_moving: a move copies it to another directory (`directory_moves`): the cleaner leaves it alone.
        is_unfinished: a truncation stopped half-way; `finish_truncation` is to be called before anything is appended.
        replacement: the segment that compaction is putting in the place of others.
        lost: the records that `open` had to give up, in order of the offsets.
    """

    __slots__ = (
        "filesystem",
        "flush_state",
        "is_moving",
        "last_flush_ms",
        "lost",
        "on_settled",
        "path",
        "replacement",
        "services",
        "topic_id",
        "topic_partition",
        "truncations",
        "unsettled_from",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        log_directory: LogDirectory,
        services: LogServices,
        *,
        name: str | None = None,
    ) -> None:
        """Prepare a log; `name` is its directory's name if that is not the partition's."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.log_directory = log_directory
        self.filesystem: Filesystem = log_directory.filesystem
        self.services = services
        self.path = f"{log_directory.path}/{name or f'{topic_partition.topic}-{topic_partition.partition}'}"
        self.segments = Segments()
        self.validator = rules_of(config, log_directory.room, services.inflation_max)
        self.epochs = LeaderEpochCache(self.filesystem, f"{self.path}/{checkpoint.LEADER_EPOCH_FILE}")
        self.producers = ProducerState(self.filesystem, self.path, expiration_ms=services.producer_id_expiration_ms)
        self.log_start_offset = FIRST_OFFSET
        self.log_end_offset = FIRST_OFFSET
        self.recovery_point = FIRST_OFFSET
        self.unflushed_messages = 0
        self.last_flush_ms = services.clock.monotonic_ms()
        self.is_closed = False
        self.is_moving = False
        self.is_unfinished = False
        self.truncations = 0
        self.replacement: Replacing | None = None
        self.lost: list[LostRange] = []
        self.flush_state = FlushState()
        self.unsettled_from = FIRST_OFFSET
        self.unsettled_upto = FIRST_OFFSET
        self.on_settled: Callable[[], None] = nothing

    def check_usable(self) -> None:
        """Raise KafkaError(KAFKA_STORAGE_ERROR) if the log is closed or its directory offline."""
        if self.log_directory.failure is not None or self.is_closed:
            raise self.log_directory.error()

    @property
    def size(self) -> int:
        """The bytes of data on disk."""
        return self.segments.size

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """The epoch of the last record; -1 if none is known."""
        return self.epochs.latest_epoch

    @property
    def end_offset_metadata(self) -> LogOffsetMetadata:
        """The log end offset and its position."""
        active = self.segments.active
        return LogOffsetMetadata(self.log_end_offset, active.base_offset, active.tail.size)

    def add_segment(self, base_offset: Offset, now_ms: int) -> LogSegment:
        """Begin a new segment, the active one from now on. Raises OSError."""
        limit = min(self.config.segment_jitter_ms, self.config.segment_ms)
        jitter_ms = self.services.jitter.randrange(limit) if limit > 0 else 0
        segment = LogSegment.create(self.filesystem, self.path, base_offset, self.config, now_ms=now_ms, jitter_ms=jitter_ms)
        self.segments.add(segment)
        self.flush_state.has_new_names = True
        return segment

    @property
    def is_settled(self) -> bool:
        """Whether no append waits for the disk because of `flush.messages`."""
        return self.unsettled_upto <= self.recovery_point

    @property
    def settled_end_offset(self) -> Offset:
        """The end of what clients may see: the log end offset, or the first offset that waits for the disk."""
        if self.unsettled_upto <= self.recovery_point:
            return self.log_end_offset
        return max(self.unsettled_from, self.recovery_point)

    @property
    def safe_recovery_point(self) -> Offset:
        """The offset to begin at after a crash: complete segments with indexes that may not be durable must be read again."""
        return min([self.recovery_point, *(segment.base_offset for segment in self.flush_state.sealed)])

    def guarded(self, work: Callable[[], None]) -> None:
        """Run work that touches the disk; OSError takes the directory offline."""
        self.check_usable()
        try:
            work()
        except OSError as error:
            raise self.log_directory.fail(error) from error

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, [{self.log_start_offset}, {self.log_end_offset}), {len(self.segments)} segments)"
