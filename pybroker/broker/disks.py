"""The threads of the log directories, and how the directories are closed at the end."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Final

from pybroker.broker.disk_thread import DiskThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.manager.manager import LogManager
    from pybroker.model import Offset, TopicPartition
    from pybroker.sharing.work import ThreadRunner

    HighWatermark = Callable[[TopicPartition], Offset | None]
    MakeThread = Callable[[str, Callable[[], None]], DiskThread]

DISK_GRACE_S: Final = 30.0  # for the last flush and everything before it


class Disks:
    """One thread for each log directory. Belongs to the loop.

    `has_hung`: a thread waits for a disk that did not respond in `DISK_GRACE_S` when its directory was closed.
    """

    __slots__ = ("_helpers", "_make_thread", "_on_bug", "_threads", "has_hung")

    def __init__(self, on_bug: Callable[[], None], make_thread: MakeThread = DiskThread) -> None:
        """Start with no thread. `on_bug` is called for each job that raised an unexpected exception."""
        self._on_bug = on_bug
        self._make_thread = make_thread
        self._threads: dict[str, DiskThread] = {}  # by path
        self._helpers: list[DiskThread] = []
        self.has_hung = False

    def thread_of(self, path: str) -> ThreadRunner:
        """Make the thread that runs everything that blocks on the disk of the log directory `path`."""
        thread = self._threads[path.rstrip("/") or "/"] = self._make_thread(f"disk {path}", self._on_bug)
        return thread.run

    def begin(self) -> None:
        """Start the threads of the directories. Without this, each begins with its first job, which may come at any time."""
        for thread in self._threads.values():
            thread.run(_do_nothing, lambda _error: None)

    def helper(self, name: str) -> ThreadRunner:
        """Make a thread for work that touches no disk, which `close` does not wait for."""
        self._helpers.append(self._make_thread(name, self._on_bug))
        return self._helpers[-1].run

    async def close(self, logs: LogManager, high_watermark: HighWatermark) -> None:
        """Close the logs of all directories, side by side. No client and no work in the background uses them any more."""
        for helper in self._helpers:
            helper.stop()
        await asyncio.gather(*(self._close_directory(directory, logs, high_watermark) for directory in logs.directories))

    async def idle(self) -> None:
        """Wait until all threads have done and reported all jobs."""
        for thread in (*self._threads.values(), *self._helpers):
            await thread.idle()

    @property
    def is_busy(self) -> bool:
        """Whether a thread has a job that is not done and reported."""
        return any(thread.unreported for thread in (*self._threads.values(), *self._helpers))

    def join(self) -> None:
        """Wait for the ends of the threads, after `close`; not for threads whose disk does not respond."""
        for thread in () if self.has_hung else (*self._threads.values(), *self._helpers):
            thread.join()

    async def _close_directory(self, directory: LogDirectory, logs: LogManager, high_watermark: HighWatermark) -> None:
        """Close the logs of a directory after all work on it has been reported: a flush that failed leaves no marker."""
        thread = self._threads[directory.path]
        try:
            async with asyncio.timeout(DISK_GRACE_S):
                await thread.idle()
                logs.write_last_high_watermarks(directory, high_watermark)
                directory.run_pass("close", [lambda: logs.close_directory(directory)])
                await thread.idle()
        except TimeoutError:
            # Its lock stays taken until the process ends: the thread may still write when the disk responds again.
            self.has_hung = True
            message = f"the disk did not respond in {DISK_GRACE_S:.0f} s; the next start recovers its logs"
            directory.fail(OSError(errno.ETIMEDOUT, message))
        else:
            logs.let_go(directory)
        thread.stop()


def _do_nothing() -> None:
    """Be the job that starts a thread."""
