"""A log with retention to the record, and a cleaner that gives back the space below its start when the test wants it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pybroker.config.broker import BrokerConfig
from pybroker.log.cleaner.cleaner import LogCleaner
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.log.manager.manager import LogManager
from pybroker.model import TopicId, TopicPartition
from pybroker.records.compression import CompressionType
from pybroker.sharing.work import WorkRunner, run_unshared
from testing.scenes.logs import START_MS, TOPIC_ID, TP, Disk, append, batch, read_batches

LATER_MS: Final = 10**9
SETTINGS: Final = BrokerConfig()


def topic_id_of(tp: TopicPartition) -> TopicId | None:
    """Return what a broker's metadata has about the only topic."""
    return TOPIC_ID if tp == TP else None


class CutLog:
    """A manager with one log, which keeps its records for 10 s, and the cleaner."""

    def __init__(
        self,
        path: Path | str,
        *,
        filesystem: Filesystem | None = None,
        disk: Disk | None = None,
        run_work: WorkRunner = run_unshared,
    ) -> None:
        self.run_work = run_work
        self.disk = disk or Disk(path, filesystem=filesystem, retention_ms=10_000, file_delete_delay_ms=0)
        self.turns: list[Callable[[], None]] = []
        self.start()

    def start(self) -> None:
        """Start, as a broker does that finds the log, or makes it."""
        self.logs: LogManager = self.disk.manager(run_work=self.run_work)
        self.logs.start(topic_id_of)
        self.log: Log = self.logs.get(TP) or self.logs.create(TP, TOPIC_ID, self.disk.config)
        self.cleaner = LogCleaner(
            self.logs,
            config=lambda: SETTINGS,
            high_watermark=lambda _: self.log.log_end_offset,
            later=lambda _, work: self.turns.append(work),
        )

    def fill(self, codec: CompressionType = CompressionType.NONE, *, count: int = 100, size: int = 100) -> None:
        """Append batches of three records, evenly over 100 seconds."""
        for number in range(count):
            append(self.log, batch(3, size=size, timestamp=START_MS + number * 100_000 // count, compression=codec))

    def give_back(self, looks: int = 6) -> None:
        """Let the cleaner look some times, and do what it finds."""
        for _ in range(looks):
            self.turns[:] = []
            self.cleaner.look()
            for _ in range(1000):
                if not self.turns or self.turns == [self.cleaner.look]:
                    break
                self.turns.pop(0)()

    def cut(self, now_ms: int) -> None:
        """Delete what is due, give its space back, and remove the files."""
        self.logs.passes.clean_up(now_ms)
        self.give_back()
        self.logs.remove_due(START_MS + LATER_MS)

    def visible(self) -> list[int]:
        """Return the offsets that a consumer reads."""
        return [
            one.offset for found in read_batches(self.log) for one in found.records() if one.offset >= self.log.log_start_offset
        ]

    def names(self, kind: str = ".") -> list[str]:
        """Return the names of all files of segments, or of one kind of them, with whatever comes behind it."""
        found = [one.name for one in self.disk.filesystem.list(self.log.path)]
        return sorted(name for name in found if name[:1].isdigit() and kind in name)
