"""Logs and batches for the tests, and file systems that fail on demand."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pybroker import native
from pybroker.clock import ManualClock
from pybroker.config.topic import TopicConfig
from pybroker.log import _tail_python
from pybroker.log.directories.directory import LogDirectory
from pybroker.log.files.filesystem import Filesystem, WriteBuffer
from pybroker.log.log import Log
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.log.results import LastRun
from pybroker.log.retention import retention
from pybroker.log.segments.fetched_records import FetchedRecords
from pybroker.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pybroker.protocol.parts import SendPart
from pybroker.records.batch import BatchView, Record, batches
from pybroker.records.build import build_batch
from testing.scenes.held_work import run_all

_NATIVE_TAIL = native.extension("pybroker.log._tail_native")
TAILS = [pytest.param(_tail_python, id="python tail")]
if _NATIVE_TAIL is not None:
    TAILS.insert(0, pytest.param(_NATIVE_TAIL, id="native tail"))

TP = TopicPartition("events", 3)
TOPIC_ID = TopicId(bytes(range(16)))
START_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Producer:
    """An idempotent producer that numbers its own batches."""

    producer_id: int
    epoch: int = 0


def batch(
    count: int = 1,
    *,
    size: int = 20,
    timestamp: int = START_MS,
    timestamps: Iterable[int] | None = None,
    producer: Producer | None = None,
    sequence: int = 0,
    **options: object,
) -> bytearray:
    """Return a batch of random values as a producer sends it, with offsets from 0."""
    times = list(timestamps) if timestamps is not None else [timestamp] * count
    records = [Record(Offset(i), at, b"key-%d" % i, random.randbytes(size)) for i, at in enumerate(times)]
    if producer is not None:
        options |= {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "base_sequence": sequence}
    return build_batch(records, **options)  # type: ignore[arg-type]  # the builder's own options, by name


def append(log: Log, data: bytearray, *, leader_epoch: int = 0, now_ms: int | None = None) -> int:
    """Append as the leader, and return the offset of the first record."""
    now_ms = log.services.clock.time_ms() if now_ms is None else now_ms
    return log.append_as_leader(memoryview(data), leader_epoch=LeaderEpoch(leader_epoch), now_ms=now_ms).first_offset


def read_batches(log: Log, offset: int = -1, *, bytes_max: int = 1 << 20) -> list[BatchView]:
    """Read everything from `offset` (by default, from the log start offset), as a consumer does."""
    offset = log.log_start_offset if offset < 0 else offset
    found: list[BatchView] = []
    while offset < log.log_end_offset:
        fetched = log.read(Offset(offset), bytes_max=bytes_max, upper_offset=log.log_end_offset, min_one_batch=True)
        got = list(batches(content(fetched)))
        if not got:
            break
        found += got
        offset = got[-1].next_offset
    return found


def content(fetched: FetchedRecords) -> bytes:
    """Pull the bytes of a slice in pieces, and return them."""
    if not isinstance(fetched.records, SendPart):
        return fetched.records
    pieces = bytearray()
    while pulled := fetched.records.pull(10_000):
        for piece in pulled:
            pieces += piece
    assert len(pieces) == fetched.size
    return bytes(pieces)


def stored(log: Log) -> bytes:
    """Return the bytes of all data files."""
    return b"".join(Path(segment.path).read_bytes() for segment in log.segments)


def log_state(log: Log) -> object:
    """Return everything that an append may change."""
    segments = [
        (s.base_offset, s.size, s.max_timestamp, s.offset_index.count, s.offset_index.last_offset, s.time_index.last_entry)
        for s in log.segments
    ]
    unindexed = [s.tail.bytes_since_entry for s in log.segments]
    edges = [edge for _, one in log.segments.active.scan(0) for edge in (one.base_offset, one.last_offset)]  # a gap may be huge
    found = [log.segments.active.find_batch(offset) for offset in (*edges, log.log_end_offset)]
    producers = [(p.producer_id, p.producer_epoch, p.last_timestamp, list(p.batches)) for p in log.producers.producers.values()]
    ends = log.log_end_offset, log.end_offset_metadata, log.producers.map_end_offset, log.unflushed_messages, log.recovery_point
    return ends, segments, unindexed, found, producers, [*log.epochs.entries], stored(log)


class StepwiseTail(_tail_python.SegmentTail):
    """A tail that takes no batches at once."""

    __slots__ = ()

    def append(self, *_: Any) -> int:
        return _tail_python.UNUSUAL


class Disk:
    """A log directory with the log of one partition, which a test opens as after a clean or an unclean stop."""

    def __init__(self, path: Path | str, *, filesystem: Filesystem | None = None, **config: object) -> None:
        self.path = Path(path)
        self.filesystem = filesystem or Filesystem()
        self.config = TopicConfig(**config)  # type: ignore[arg-type]  # attributes of TopicConfig, by name
        self.clock = ManualClock(START_MS)
        self.services = LogServices(clock=self.clock, jitter=random.Random(1))
        self.directory = LogDirectory(str(path), self.filesystem)

    @property
    def log_path(self) -> Path:
        return self.path / str(TP)

    def create(self) -> Log:
        return Log.create(TP, TOPIC_ID, self.config, self.directory, self.services)

    def open(
        self,
        *,
        was_clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        known_end_offset: int = 0,
        may_be_compacted: bool = False,
    ) -> Log:
        last = LastRun(
            was_clean=was_clean,
            recovery_point=Offset(recovery_point),
            log_start_offset=Offset(log_start_offset),
            known_end_offset=Offset(known_end_offset),
            may_be_compacted=may_be_compacted,
        )
        return Log.open(TP, TOPIC_ID, self.config, self.directory, self.services, last)

    def manager(self, **options: object) -> LogManager:
        return LogManager(
            [str(self.path)],
            cluster_id="a-cluster",
            node_id=BrokerId(1),
            services=self.services,
            config_of=lambda _: self.config,
            filesystem=self.filesystem,
            **options,  # type: ignore[arg-type]  # the manager's own options, by name
        )


class HeldThread:
    """A `ThreadRunner` like that of a slow disk: a job runs when the test calls `run_next`."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], None], Callable[[OSError | None], None]]] = []

    def __call__(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        self.jobs.append((work, done))

    def run_next(self, error: OSError | None = None) -> None:
        """Run the oldest job, or report `error` as its failure."""
        work, done = self.jobs.pop(0)
        if error is None:
            work()
        done(error)

    def run_all(self) -> None:
        """Run all jobs, also those that others begin."""
        while self.jobs:
            self.run_next()


class FaultyFilesystem(Filesystem):
    """A file system that calls `fault(operation)` before each operation that changes something.

    `short` makes writes take half of their bytes. There are no reserves, so that each failure counts.
    """

    keeps_reserves = False
    __slots__ = ("fault", "short")

    def __init__(self) -> None:
        self.fault: Callable[[str], None] = lambda _: None
        self.short = False

    def fail_with(self, code: int, *operations: str) -> None:
        def fault(operation: str) -> None:
            if operation in operations:
                raise OSError(code, os.strerror(code))

        self.fault = fault

    def heal(self) -> None:
        self.fault = lambda _: None

    def pwrite(self, fd: int, data: WriteBuffer, position: int) -> int:  # type: ignore[override]  # os.pwrite takes any buffer
        self.fault("write")
        view = memoryview(data)
        return super().pwrite(fd, view[: max(len(view) // 2, 1)] if self.short else view, position)

    def pread(self, fd: int, length: int, position: int) -> bytes:
        self.fault("read")
        return super().pread(fd, length, position)

    def sync(self, fd: int) -> None:
        self.fault("sync")
        super().sync(fd)

    def rename(self, source: str, target: str) -> None:
        self.fault("rename")
        super().rename(source, target)

    def create_empty(self, path: str) -> None:
        self.fault("create")
        super().create_empty(path)

    def create_new(self, path: str) -> None:
        self.fault("create")
        super().create_new(path)

    def truncate(self, fd: int, size: int) -> None:
        self.fault("truncate")
        super().truncate(fd, size)


class TornFilesystem(FaultyFilesystem):
    """A file system that fills up in the middle of a write: it takes `room` bytes, then raises ENOSPC."""

    __slots__ = ("room",)

    def __init__(self) -> None:
        super().__init__()
        self.room = -1

    def pwrite(self, fd: int, data: WriteBuffer, position: int) -> int:  # type: ignore[override]  # os.pwrite takes any buffer
        if self.room < 0:
            return super().pwrite(fd, data, position)
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = super().pwrite(fd, memoryview(data)[: self.room], position)
        self.room -= written
        return written


def delete_old_segments(log: Log, now_ms: int, *, high_watermark: Offset | None = None) -> int:
    """Make one pass of retention over `log`, without anything between its two steps. Returns the number of deleted segments."""
    run_all(retention.advance(log, now_ms, log.settled_end_offset if high_watermark is None else high_watermark))
    return log.delete_below_start()
