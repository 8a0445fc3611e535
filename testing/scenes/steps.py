"""A runner of long work that does a step when a test wants it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from pybroker.sharing.work import InThread

if TYPE_CHECKING:
    from pybroker.sharing.work import Work
    from testing.turns import Turns


def all_steps(work: Work[Any]) -> int:
    """Do all steps one after the other, also what is meant for a thread. Returns their number."""
    count = 0
    for step in work:
        count += 1
        if isinstance(step, InThread):
            step.add_done_callback(lambda _: None)
            assert step.error is None
    return count


class HeldSteps:
    """A `WorkRunner` whose jobs wait for `step`; jobs take steps in turn. `count` is the number of steps that were done."""

    def __init__(self) -> None:
        self.jobs: list[tuple[str, Work[None]]] = []
        self.count = 0

    def __call__(self, name: str, work: Work[None], /) -> None:
        self.jobs.append((name, work))

    def step(self) -> bool:
        """Do a step of the first job, which is the last one then. Returns whether there was any."""
        if not self.jobs:
            return False
        job = self.jobs.pop(0)
        self.count += 1
        with contextlib.suppress(StopIteration):
            self._later(job, next(job[1]))
        return True

    def finish_watched(self, turns: Turns) -> None:
        """Do all steps of all jobs, each as a turn of its own. The thread's work is no turn of the loop's."""
        while self.jobs:
            job = self.jobs.pop(0)
            with contextlib.suppress(StopIteration):
                self._later(job, turns.run(next, job[1]))

    def finish(self) -> None:
        """Do all steps of all jobs."""
        while self.step():
            pass

    def _later(self, job: tuple[str, Work[None]], step: object) -> None:
        if isinstance(step, InThread):
            step.add_done_callback(lambda _: self.jobs.append(job))
        else:
            assert step is None
            self.jobs.append(job)
