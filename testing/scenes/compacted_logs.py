"""Several compacted logs, one cleaner, and its timers in the order of their times."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from pathlib import Path

from pybroker.config.load import load
from pybroker.log.cleaner.cleaner import LogCleaner
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.sharing.work import ThreadRunner, run_inline
from testing.scenes.compacted_log import CleanerClock, records, settings_of
from testing.scenes.logs import START_MS, TOPIC_ID, Disk
from testing.scenes.slices import background


class CompactedLogs:
    """Logs of one topic; `run` calls what the cleaner has asked for, at its time."""

    def __init__(
        self,
        folder: Path,
        count: int,
        *,
        overrides: dict[str, str] | None = None,
        filesystem: Filesystem | None = None,
        disk_thread: ThreadRunner = run_inline,
        codec_thread: ThreadRunner = run_inline,
        **config: object,
    ) -> None:
        config = {"segment_bytes": 1 << 20, "min_cleanable_dirty_ratio": 0.0} | config
        disk = Disk(folder, filesystem=filesystem, cleanup_policy=frozenset({"compact"}), **config)
        self.clock = CleanerClock(START_MS)
        self.settings = settings_of(**(overrides or {}))
        self.logs = LogManager(
            [str(folder)],
            cluster_id="a-cluster",
            node_id=BrokerId(1),
            services=LogServices(clock=self.clock, jitter=random.Random(1)),
            config_of=lambda _: disk.config,
            filesystem=filesystem,
            thread_of=lambda _: disk_thread,
        )
        self.logs.start()
        self.all = [self.logs.create(TopicPartition("events", n), TOPIC_ID, disk.config) for n in range(count)]
        self.bugs = 0
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.cleaner = LogCleaner(
            self.logs,
            config=lambda: self.settings,
            high_watermark=lambda tp: self._log(tp).log_end_offset,
            later=self._later,
            run=background(self._later, on_bug=self._count_bug).run,
            thread_of=lambda _: codec_thread,
            on_bug=self._count_bug,
        )
        self.cleaner.start()
        self.run(0)

    def _log(self, tp: TopicPartition) -> Log:
        log = self.logs.get(tp)
        assert log is not None
        return log

    def _count_bug(self) -> None:
        self.bugs += 1

    def _later(self, delay_s: float, work: Callable[[], None]) -> None:
        heapq.heappush(self.timers, (self.clock.waited_s + delay_s, next(self._numbers), work))

    def configure(self, **overrides: str) -> None:
        """Set `log.cleaner.*` at run time, with underscores in the place of dots."""
        self.settings = load(
            overrides={f"log.cleaner.{name.replace('_', '.')}": value for name, value in overrides.items()}
        ).config

    def step(self) -> None:
        """Call what is due next."""
        self.clock.waited_s, _, work = heapq.heappop(self.timers)
        work()

    def run(self, seconds: float) -> None:
        """Call what is due in that time."""
        end = self.clock.waited_s + seconds
        while self.timers and self.timers[0][0] <= end:
            self.step()
        self.clock.waited_s = end

    def busy(self) -> list[Log]:
        """Return the logs that are being cleaned."""
        return [worker.log for worker in self.cleaner._workers if worker.log is not None]

    def fill(self, log: Log, codec: CompressionType = CompressionType.NONE) -> None:
        """Write 30 values of one key, of 20 kB each, which end with a new segment."""
        for number in range(30):
            self.put(log, b"key", b"%d" % (number % 10) * 20_000, codec)
        log.roll(self.clock.time_ms())

    def put(self, log: Log, key: bytes, value: bytes | None, codec: CompressionType = CompressionType.NONE) -> int:
        now_ms = self.clock.time_ms()
        data = build_batch([Record(Offset(0), now_ms, key, value)], compression=codec)
        return log.append_as_leader(memoryview(data), leader_epoch=LeaderEpoch(0), now_ms=now_ms).first_offset

    def counts(self) -> list[int]:
        """Return how many records each log has."""
        return [len(records(log)) for log in self.all]
