"""A runner of long work that continues it when a test wants that."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pybroker.sharing.work import InThread

if TYPE_CHECKING:
    from pybroker.sharing.work import Work
    from testing.turns import Turns


def run_all(work: Work[Any]) -> None:
    """Do all of the work, also what is meant for a thread."""
    for wait in work:
        if isinstance(wait, InThread):
            wait.add_done_callback(lambda _: None)
            assert wait.error is None


class HeldWork:
    """A `WorkRunner` whose jobs wait for `proceed`, in turn."""

    def __init__(self) -> None:
        self.jobs: list[tuple[str, Work[None]]] = []

    def __call__(self, name: str, work: Work[None], /) -> None:
        self.jobs.append((name, work))

    def proceed(self) -> bool:
        """Continue the first job up to its next yield; it is the last one then. Returns whether there was any."""
        if not self.jobs:
            return False
        job = self.jobs.pop(0)
        with contextlib.suppress(StopIteration):
            self._later(job, next(job[1]))
        return True

    def finish_watched(self, turns: Turns) -> None:
        """Do all jobs, with a turn for each way from one yield to the next. The thread's work is no turn of the loop's."""
        while self.jobs:
            job = self.jobs.pop(0)
            with contextlib.suppress(StopIteration):
                self._later(job, turns.run(next, job[1]))

    def finish(self) -> None:
        """Do all jobs."""
        while self.proceed():
            pass

    def _later(self, job: tuple[str, Work[None]], wait: object) -> None:
        if isinstance(wait, InThread):
            wait.add_done_callback(lambda _: self.jobs.append(job))
        else:
            assert wait is None
            self.jobs.append(job)
