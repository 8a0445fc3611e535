"""A runner of long work that does a step when a test wants it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.log.results import InThread, Steps
    from testing.turns import Turns


def all_steps(steps: Iterator[InThread | None]) -> int:
    """Do all steps one after the other, also what is meant for a thread. Returns their number."""
    count = 0
    for step in steps:
        count += 1
        if step is not None:
            step.work()
    return count


class HeldSteps:
    """A `StepsRunner` whose jobs wait for `step`; jobs take steps in turn. `count` is the number of steps that were done."""

    def __init__(self) -> None:
        self.jobs: list[tuple[str, Steps, OSError | None]] = []
        self.count = 0

    def __call__(self, name: str, steps: Steps, /) -> None:
        self.jobs.append((name, steps, None))

    def step(self) -> bool:
        """Do a step of the first job, which is the last one then. Returns whether there was any."""
        if not self.jobs:
            return False
        name, steps, error = self.jobs.pop(0)
        is_over = False
        step = None
        try:
            step = next(steps) if error is None else steps.throw(error)
        except StopIteration:
            is_over = True
        self.count += 1
        if step is not None:
            step.run(step.work, lambda failure: self.jobs.append((name, steps, failure)))
        elif not is_over:
            self.jobs.append((name, steps, None))
        return True

    def finish_watched(self, turns: Turns) -> None:
        """Do all steps of all jobs, each as a turn of its own. The thread's work is no turn of the loop's."""
        while self.jobs:
            name, steps, error = self.jobs.pop(0)
            with contextlib.suppress(StopIteration):
                step = turns.run(lambda steps=steps, error=error: next(steps) if error is None else steps.throw(error))
                if step is None:
                    self.jobs.append((name, steps, None))
                else:
                    step.run(step.work, lambda failure, name=name, steps=steps: self.jobs.append((name, steps, failure)))

    def finish(self) -> None:
        """Do all steps of all jobs."""
        while self.step():
            pass
