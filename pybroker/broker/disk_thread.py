"""The thread of one log directory: what blocks on its disk (fsync, checkpoints, removals, cold reads of the cleaner) runs here.

One thread for each directory, so that a disk that hangs holds up nobody else's; one at a time, so that what is asked for while an
fsync runs can be done by the next one together. A thread of our own, not one of `concurrent.futures`: those are joined when the
interpreter ends, and a disk that never answers must not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

logger = logging.getLogger(__name__)

Done = Callable[[OSError | None], None]
Job = tuple[Callable[[], None], Done]


class DiskThread:
    """Belongs to the loop; `run` is a `ThreadRunner`. The thread begins with the first job.

    `on_bug` is called on the loop for each job or report that raised what it should not.
    """

    __slots__ = ("_idle", "_jobs", "_loop", "_name", "_on_bug", "_thread", "unreported")

    def __init__(self, name: str, on_bug: Callable[[], None]) -> None:
        self._name = name
        self._on_bug = on_bug
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread: threading.Thread | None = None
        self._idle: list[asyncio.Future[None]] = []
        self.unreported = 0
        """Jobs that were asked for and whose `done` has not returned."""

    def run(self, work: Callable[[], None], done: Done) -> None:
        """Run `work` in the thread, after what was asked for before, and then `done` on the loop.

        `done` always runs: with None, with the OSError that `work` raised, or, for any other exception, which is a bug of ours
        and logged as such, with an OSError(EIO) in its stead, as nobody knows what is on the disk then.
        """
        self.unreported += 1
        if self._thread is None:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # too many threads; the next job tries again
                told = OSError(errno.EMFILE, f"no thread for the disk: {error}")
                self._loop.call_soon(self._report, done, told)
                return
            self._thread = thread
        self._jobs.put((work, done))

    async def idle(self) -> None:
        """Wait until all that was asked for is done and reported, what the reports asked for included."""
        while self.unreported:
            waiter = self._loop.create_future()
            self._idle.append(waiter)
            await waiter

    def stop(self) -> None:
        """Let the thread end when it has done what it was asked for. Does not wait for it."""
        self._jobs.put(None)

    def _work(self) -> None:
        """The thread."""
        while (job := self._jobs.get()) is not None:
            work, done = job
            error: BaseException | None = None
            try:
                work()
            except BaseException as raised:  # told on the loop
                error = raised
            try:
                self._loop.call_soon_threadsafe(self._report, done, error)
            except RuntimeError:  # the loop is closed: nobody is left to be told
                return
            del job, work, done, error  # a slow next job must not keep what this one holds

    def _report(self, done: Done, error: BaseException | None) -> None:
        try:
            done(self._told(error))
        except Exception:
            logger.exception("%s: what a job reports was not taken. This is a bug.", self._name)
            self._on_bug()
        finally:
            self.unreported -= 1
            if not self.unreported:
                waiting, self._idle = self._idle, []
                for waiter in waiting:
                    if not waiter.done():
                        waiter.set_result(None)

    def _told(self, error: BaseException | None) -> OSError | None:
        if error is None or isinstance(error, OSError):
            return error
        logger.error("%s: a job failed unexpectedly. This is a bug.", self._name, exc_info=error)
        self._on_bug()
        told = OSError(errno.EIO, f"unexpected error in the disk thread: {error!r}")
        told.__cause__ = error
        return told
