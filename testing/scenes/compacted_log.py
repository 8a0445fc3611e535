"""A compacted log, with a cleaner that takes a turn when the test wants it."""

from __future__ import annotations

import functools
import heapq
import itertools
import random
from collections.abc import Callable
from pathlib import Path

from pybroker.clock import ManualClock
from pybroker.config.broker import BrokerConfig
from pybroker.config.load import load
from pybroker.log.cleaner.cleaner import LogCleaner
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.log.results import AppendOrigin
from pybroker.model import CoordinatorEpoch, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicPartition
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from testing.scenes.logs import START_MS, TOPIC_ID, TP, Disk, Producer, read_batches
from testing.scenes.slices import STEPS, background

Pair = tuple[bytes, bytes | None]


def records(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(one.offset, one.key, one.value) for batch in read_batches(log) if not batch.is_control for one in batch.records()]


@functools.cache
def settings_of(**overrides: str) -> BrokerConfig:
    """Return the settings of a broker; to make them takes longer than most of what a test does with them."""
    return load(overrides=overrides).config


class CleanerClock(ManualClock):
    """A clock whose monotonic time also advances while the cleaner waits for its next turn."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(now_ms)
        self.waited_s = 0.0

    def monotonic_ms(self) -> int:
        """Return the time with what the cleaner has waited."""
        return super().monotonic_ms() + round(1000 * self.waited_s)


class CompactedLog:
    """A compacted log with small segments, and a cleaner that takes a turn when the test calls `turn`."""

    def __init__(
        self,
        folder: Path,
        *,
        filesystem: Filesystem | None = None,
        overrides: dict[str, str] | None = None,
        steps: int = STEPS,
        **config: object,
    ) -> None:
        """Make the log; the cleaner has slices of about `steps` yields."""
        self.steps = steps
        small = {"segment_bytes": 500, "min_cleanable_dirty_ratio": 0.0, "index_interval_bytes": 100}
        config = {"cleanup_policy": frozenset({"compact"})} | small | config
        self.disk = Disk(folder, filesystem=filesystem, **config)
        self.disk.clock = self.clock = CleanerClock(START_MS)
        self.disk.services = LogServices(clock=self.clock, jitter=random.Random(1))
        self.settings = settings_of(**(overrides or {}))
        self.high_watermark: int | None = None
        self.start()
        self.log = self.logs.get(TP) or self.logs.create(TP, TOPIC_ID, self.disk.config)

    def start(self) -> None:
        self.logs: LogManager = self.disk.manager()
        self.logs.start()
        self.turns: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.cleaner = LogCleaner(
            self.logs,
            config=lambda: self.settings,
            high_watermark=self._high_watermark,
            later=self._later,
            run=background(self._later, steps=self.steps).run,
        )
        self.cleaner.start()
        while not self.is_idle:
            self.turn()

    def _later(self, delay_s: float, work: Callable[[], None]) -> None:
        heapq.heappush(self.turns, (self.clock.waited_s + delay_s, next(self._numbers), work))

    def _high_watermark(self, _: TopicPartition) -> int:
        return self.log.log_end_offset if self.high_watermark is None else self.high_watermark

    def restart(self, *, is_clean: bool = False) -> None:
        if is_clean:
            self.logs.stop()
        else:
            self.logs.abandon()
        self.start()
        log = self.logs.get(TP)
        assert log is not None
        self.log = log

    def turn(self) -> float:
        """Take the next turn, and return how long the cleaner has waited for it."""
        due_s, _, work = heapq.heappop(self.turns)
        delay_s = due_s - self.clock.waited_s
        self.clock.waited_s = due_s
        work()
        return delay_s

    @property
    def is_idle(self) -> bool:
        """Whether nothing but a look is due."""
        return [work for _, _, work in self.turns] == [self.cleaner.look]

    def clean(self) -> None:
        """Take turns until nothing is left to do."""
        self.turn()
        while not self.is_idle or self.turns[0][0] - self.clock.waited_s < 1:
            self.turn()

    def put(self, *pairs: Pair, producer: Producer | None = None, sequence: int = 0, **options: object) -> int:
        """Append a batch, and return the offset of its first record."""
        records = [Record(Offset(i), self.disk.clock.time_ms(), key, value) for i, (key, value) in enumerate(pairs)]
        if producer is not None:
            options |= {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "base_sequence": sequence}
        return self.append(build_batch(records, **options))  # type: ignore[arg-type]  # the builder's own options

    def append(self, data: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT) -> int:
        now_ms = self.disk.clock.time_ms()
        return self.log.append_as_leader(memoryview(data), leader_epoch=LeaderEpoch(0), now_ms=now_ms, origin=origin).first_offset

    def append_without_a_key(self, *more: Record) -> None:
        """Append records without a key, as the log has them from the time before the topic was compacted."""
        compact, self.log.config = self.log.config, Disk(self.disk.path).config
        self.append(build_batch([Record(Offset(0), START_MS, None, b"x"), *more]))
        self.log.config = compact

    def end_transaction(self, producer: Producer, kind: ControlType) -> int:
        marker = build_transaction_marker(
            TransactionMarker(kind, CoordinatorEpoch(0)),
            producer_id=ProducerId(producer.producer_id),
            producer_epoch=ProducerEpoch(producer.epoch),
            timestamp_ms=self.disk.clock.time_ms(),
        )
        return self.append(marker, AppendOrigin.COORDINATOR)

    def roll(self) -> None:
        self.log.roll(self.disk.clock.time_ms())

    def records(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return records(self.log)

    def names(self, ending: str) -> list[str]:
        return sorted(path.name for path in self.disk.log_path.iterdir() if path.name.endswith(ending))
