"""The passes over all logs that the broker makes at intervals, in slices: `LogManager.passes`.

The passes over the logs of one directory are made for each directory of its own, so that a disk that hangs holds up no
other. A pass that has not ended is not begun again: a slow disk, or a busy loop, gets no more than it can do.

A pass sees the logs that exist when it begins. It leaves out a log that was closed, moved or deleted since then, and
what it finds in a log is of the moment when it looks, not of its beginning.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.log.directories import removals
from pybroker.log.manager import checkpoint_pass, room_pass
from pybroker.log.manager.retention_pass import retain
from pybroker.protocol.error_codes import KafkaError
from pybroker.sharing.work import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.log import Log
    from pybroker.model import Offset, TopicPartition
    from pybroker.sharing.work import Work, WorkRunner

logger = logging.getLogger(__name__)


class LogPasses:
    """The passes over the logs that `logs` returns, in `directories`. Belongs to the loop."""

    __slots__ = ("_directories", "_logs", "_run", "_under_way")

    def __init__(self, directories: Sequence[LogDirectory], logs: Callable[[], list[Log]], run: WorkRunner) -> None:
        self._directories = directories
        self._logs = logs
        self._run = run
        self._under_way: set[str] = set()

    def checkpoint(self) -> None:
        """Write recovery points and log start offsets."""
        for directory in self._online():
            self._begin_writing("checkpoint", directory, checkpoint_pass.both(directory, self._logs))

    def checkpoint_start_offsets(self) -> None:
        """Write log start offsets."""
        for directory in self._online():
            self._begin_writing("start offsets", directory, checkpoint_pass.start_offsets(directory, self._logs))

    def write_high_watermarks(self, high_watermark: Callable[[TopicPartition], Offset | None]) -> None:
        """Write `replication-offset-checkpoint` of each directory, for the partitions that `high_watermark` returns one for."""
        for directory in self._online():
            collection = checkpoint_pass.high_watermarks(directory, self._logs, high_watermark)
            self._begin_writing("high watermarks", directory, collection)

    def clean_up(self, now_ms: int) -> None:
        """Apply retention to every log."""
        for directory in self._online():
            self.begin(f"retention {directory.path}", retain(directory, self._logs, now_ms))

    def flush_due(self, now_ms: int) -> None:
        """Flush the logs that are not durable and whose `flush.ms` has passed since their last flush, in threads.

        `now_ms` is of the monotonic clock. Records that a start has recovered count as written when the log was opened.
        """
        self.begin("flush", self._flush_due(now_ms))

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget producers that were silent for `producer.id.expiration.ms`."""
        self.begin("producer expiration", self._remove_expired_producers(now_ms))

    def release_sealed(self) -> None:
        """Release the descriptors and maps of complete segments; the next reader opens them again, for about 20 us.

        Slices that are being sent keep theirs. So descriptors are bounded by active segments and recent readers.
        """
        self.begin("release of files", self._release_sealed())

    def remove_due(self, now_ms: int) -> None:
        """Remove files and directories whose `file.delete.delay.ms` has passed, in a thread; run retries that are due.

        `now_ms` is of the monotonic clock.
        """
        self.begin("retries", self._retry_due(now_ms))
        for directory in self._directories:
            removals.run_due(directory, now_ms)

    def look_for_room(self, seen: Callable[[], None] = lambda: None) -> None:
        """Check in threads which volumes have room for records; `seen` is called for each."""
        for directory in self._online():
            if directory.filesystem.keeps_reserves:
                self.begin(f"room {directory.path}", room_pass.look(directory, self._logs, seen))

    def begin(self, name: str, work: Work[None]) -> None:
        """Begin a pass of that name, unless the last one has not ended."""
        if name not in self._under_way:
            self._under_way.add(name)
            self._run(name, self._noted(name, work))

    def _noted(self, name: str, work: Work[None]) -> Work[None]:
        try:
            yield from work
        finally:
            self._under_way.discard(name)

    def _begin_writing(self, name: str, directory: LogDirectory, collection: checkpoint_pass.Collection) -> None:
        self.begin(f"{name} {directory.path}", _written(directory, collection))

    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if not directory.is_offline]

    def _flush_due(self, now_ms: int) -> Work[None]:
        for log in self._logs():
            is_due = log.recovery_point < log.log_end_offset and now_ms - log.last_flush_ms >= log.config.flush_ms
            if is_due and not log.is_closed and not log.log_directory.is_offline:
                try:
                    log.guarded(log.flush)
                except KafkaError as error:
                    logger.warning("A flush of %s fails and is tried again: %s", log.topic_partition, error)
            yield None

    def _remove_expired_producers(self, now_ms: int) -> Work[None]:
        for log in self._logs():
            yield from log.producers.remove_expired(now_ms)
            yield None

    def _release_sealed(self) -> Work[None]:
        for log in self._logs():
            for segment in list(log.segments):
                if segment is not log.segments.active:
                    segment.release()
                yield None

    def _retry_due(self, now_ms: int) -> Work[None]:
        for directory in self._directories:
            while (work := directory.take_retry(now_ms)) is not None:
                work()
                yield None


def _written(directory: LogDirectory, collection: checkpoint_pass.Collection) -> Work[None]:
    """Collect offsets, and write them in the directory's thread. A disk that fails takes the directory offline."""
    write = yield from collection
    if not directory.is_offline:
        try:
            yield from in_thread(directory.run_in_thread, write)
        except OSError as error:
            directory.fail_pass(error)
