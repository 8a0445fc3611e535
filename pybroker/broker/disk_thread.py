"""The thread of one log directory: work that blocks on its disk (fsync, checkpoints, removals, cold reads of the cleaner) runs
here.

Each directory has its own thread, so that a disk that hangs holds up no other disk. The thread does one job at a time, so that
jobs that arrive while an fsync runs can share the next one. It is not a thread of `concurrent.futures`: those are joined when the
interpreter ends, and a disk that never responds must not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from pybroker.failures import is_shortage

logger = logging.getLogger(__name__)

Done = Callable[[OSError | None], None]
Job = tuple[Callable[[], None], Done]


class DiskThread:
    """Belongs to the loop; `run` is a `ThreadRunner`. The thread begins with the first job.

    `on_bug` is called on the loop for each job or report that raised an unexpected exception.
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
        """Jobs that were requested and whose `done` has not returned."""

    def run(self, work: Callable[[], None], done: Done) -> None:
        """Run `work` in the thread, after the jobs requested before, and then `done` on the loop.

        `done` always runs: with None, with the OSError that `work` raised, or with an OSError(EIO) in the place of any other
        exception, which is a bug and logged as such: what is on the disk is unknown then.
        """
        self.unreported += 1
        if self._thread is None:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # too many threads; the next job tries again
                failure = OSError(errno.EMFILE, f"no thread for the disk: {error}")
                self._loop.call_soon(self._report, done, failure)
                return
            self._thread = thread
        self._jobs.put((work, done))

    async def idle(self) -> None:
        """Wait until all requested jobs are done and reported, including the jobs that the reports requested."""
        while self.unreported:
            waiter = self._loop.create_future()
            self._idle.append(waiter)
            await waiter

    def stop(self) -> None:
        """Let the thread end when it has done the requested jobs. Does not wait for it."""
        self._jobs.put(None)

    def join(self) -> None:
        """Wait until the thread has ended, after `stop`."""
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        """Run jobs until None comes: the body of the thread."""
        while (job := self._jobs.get()) is not None:
            work, done = job
            error: BaseException | None = None
            try:
                work()
            except BaseException as raised:  # reported on the loop
                error = raised
            try:
                self._loop.call_soon_threadsafe(self._report, done, error)
            except RuntimeError:  # the loop is closed: nothing is left to report to
                return
            del job, work, done, error  # a slow next job must not keep the objects that this one holds

    def _report(self, done: Done, error: BaseException | None) -> None:
        try:
            done(self._as_os_error(error))
        except Exception:
            logger.exception("%s: the report of a job raised an unexpected error, which is a bug", self._name)
            self._on_bug()
        finally:
            self.unreported -= 1
            if not self.unreported:
                waiting, self._idle = self._idle, []
                for waiter in waiting:
                    if not waiter.done():
                        waiter.set_result(None)

    def _as_os_error(self, error: BaseException | None) -> OSError | None:
        if error is None or isinstance(error, OSError):
            return error
        if is_shortage(error):  # no fault of the disk
            return OSError(errno.ENOMEM, f"{os.strerror(errno.ENOMEM)}: {error!r}")
        logger.error("%s: a job failed unexpectedly, which is a bug", self._name, exc_info=error)
        self._on_bug()
        failure = OSError(errno.EIO, f"unexpected error in the disk thread: {error!r}")
        failure.__cause__ = error
        return failure
