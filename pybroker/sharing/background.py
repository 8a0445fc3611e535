"""Long work of the broker itself, done on the loop in slices: it gives way to requests, and always progresses.

Idea
    All jobs together get a slice of `SLICE_NS`. After it the background waits three times as long as the slice took, so the jobs
    take at most a quarter of the loop. They delay a request by one slice, which ends at the first `yield` after its time. A timer
    begins each slice, and the loop calls the timers that are due in each of its rounds. So the next round of the loop after the
    pause has a slice, under any load.

    The jobs take their slices in turn. A job that waits for a thread takes none.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from pybroker.clock import WakeUp
from pybroker.sharing.turns.jobs import job as named
from pybroker.sharing.work import run_slice

if TYPE_CHECKING:
    from pybroker.sharing.work import Work

logger = logging.getLogger(__name__)

SLICE_NS: Final = 2_000_000
PAUSES_PER_SLICE: Final = 3


Later = Callable[[float, Callable[[], None]], WakeUp]


class _Job:
    """A job: its work, and the name that a person sees."""

    __slots__ = ("name", "work")

    def __init__(self, name: str, work: Work[None]) -> None:
        self.name = name
        self.work = work


class Background:
    """The jobs of one broker. Belongs to the loop; `run` is a `WorkRunner`.

    `on_bug` is called for each job that raised an exception. `later(delay_s, work)` calls work on the loop, which is the running
    one by default; `now_ns` is a clock, which tests may replace.
    """

    __slots__ = ("_jobs", "_later", "_now_ns", "_on_bug", "_pause_until_ns", "_waiting", "_wake_up", "is_stopped")

    def __init__(
        self, on_bug: Callable[[], None], later: Later | None = None, now_ns: Callable[[], int] = perf_counter_ns
    ) -> None:
        self._on_bug = on_bug
        self._later = later
        self._now_ns = now_ns
        self._jobs: deque[_Job] = deque()
        self._waiting: set[_Job] = set()  # for their threads
        self._wake_up: WakeUp | None = None
        self._pause_until_ns = 0
        self.is_stopped = False

    def run(self, name: str, work: Work[None]) -> None:
        """Run `work` in slices, the first of them in a later turn."""
        if self.is_stopped:
            work.close()
            return
        self._jobs.append(_Job(name, work))
        self._request_slice()

    @property
    def is_busy(self) -> bool:
        """Whether a job waits for its slice."""
        return bool(self._jobs)

    def hurry(self) -> None:
        """Begin the next slice in a later turn without the rest of the pause, because something waits for the jobs."""
        if self._wake_up is not None and self._now_ns() < self._pause_until_ns:
            self._wake_up.cancel()
            self._wake_up, self._pause_until_ns = None, 0
            self._request_slice()

    def stop(self) -> None:
        """End all jobs where they are; a thread finishes what it does."""
        self.is_stopped = True
        if self._wake_up is not None:
            self._wake_up.cancel()
        for job in (*self._jobs, *self._waiting):
            job.work.close()
        self._jobs.clear()
        self._waiting.clear()

    def _request_slice(self) -> None:
        if self._wake_up is None and self._jobs and not self.is_stopped:
            later = self._later or asyncio.get_running_loop().call_later
            self._wake_up = later(max(self._pause_until_ns - self._now_ns(), 0) / 1e9, self._slice)

    def _slice(self) -> None:
        began_ns = self._now_ns()
        end_ns = began_ns + SLICE_NS
        while self._jobs and not self.is_stopped:
            job = self._jobs.popleft()
            try:
                with named(job.name):
                    ended, step, _ = run_slice(job.work, end_ns, self._now_ns)
            except Exception:
                logger.exception("Work in the background (%s) failed, which is a bug", job.name)
                self._on_bug()
                continue
            if step is not None:
                assert not callable(step), "a job names the thread that does its work"
                self._waiting.add(job)
                step.add_done_callback(partial(self._continue, job))
            elif not ended:
                self._jobs.append(job)
            if self._now_ns() >= end_ns:
                break
        self._wake_up, now_ns = None, self._now_ns()
        self._pause_until_ns = now_ns + PAUSES_PER_SLICE * (now_ns - began_ns)
        self._request_slice()

    def _continue(self, job: _Job, _: object) -> None:
        if job in self._waiting:
            self._waiting.discard(job)
            self._jobs.append(job)
            self._request_slice()
