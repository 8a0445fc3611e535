"""The turns of several event loops on one manual clock, of which chance draws the next one.

Each process of a simulated cluster has a loop of its own, so that a process is killed by ending its loop, and paused by giving
its loop no turns. Nothing runs in parallel: the same seed gives the same run. When no loop is ready, the clock is set to the next
timer of a loop, or to the next event between processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import math
import threading
import traceback
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from testing.simulation.loop import NothingToDoError, SimulatedLoop

if TYPE_CHECKING:
    from pybroker.clock import ManualClock

STEPS_MAX = 200_000
"""Turns and events within a millisecond of the clock: more of them are a loop without an end."""
_RESOLUTION_S = 0.0005
_THREAD = threading.get_ident()


class SharedLoop(SimulatedLoop):
    """The loop of one process. Exceptions that no task takes are in `problems`."""

    def __init__(self, clock: ManualClock, random: Random, problems: list[str], interleaving: float = 0.0) -> None:
        super().__init__(clock, random, interleaving)
        self.is_paused = False
        self._thread_id: int | None = None
        self.set_exception_handler(lambda _loop, context: problems.append(_described(context)))

    def is_ready(self, now_s: float) -> bool:
        """Return whether a turn would do something now."""
        if self._ready:  # type: ignore[attr-defined]  # the loop's own queue
            return True
        scheduled = self._scheduled  # type: ignore[attr-defined]
        return bool(scheduled and scheduled[0].when() < now_s + _RESOLUTION_S) or any(thread.jobs for thread in self.threads)

    def next_timer_s(self) -> float:
        """Return the time of the next timer; infinity if there is none."""
        scheduled = self._scheduled  # type: ignore[attr-defined]
        return float(scheduled[0].when()) if scheduled else math.inf

    def wait(self, timeout: float | None) -> None:
        """Do a job of a thread by chance, or because nothing else is ready. The scheduler sets the clock."""
        if self._at_work is None:
            waiting = [thread for thread in self.threads if thread.jobs]
            if waiting and (timeout != 0 or self.random.random() < 0.5):
                self.work(self.random.choice(waiting))

    def turn(self) -> None:
        """Run what is ready."""
        self._thread_id = _THREAD
        asyncio._set_running_loop(self)
        try:
            self._run_once()  # type: ignore[attr-defined]
        finally:
            asyncio._set_running_loop(None)
            self._thread_id = None

    def end(self) -> None:
        """End the loop as the death of the process does."""
        self.threads.clear()
        asyncio._set_running_loop(self)
        try:
            for task in asyncio.all_tasks(self):
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # the death is intended
                with contextlib.suppress(RuntimeError):  # a coroutine that waits again in its `finally`, which a death ends too
                    task.get_coro().close()
        finally:
            asyncio._set_running_loop(None)
        self._ready.clear()  # type: ignore[attr-defined]
        self._scheduled.clear()  # type: ignore[attr-defined]
        self.close()


class Scheduler:
    """Draws which loop makes the next turn, and lets time pass when none is ready."""

    def __init__(self, clock: ManualClock, random: Random) -> None:
        self.clock, self.random = clock, random
        self.loops: list[SharedLoop] = []
        self._events: list[tuple[int, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._steps = 0

    def later(self, delay_ms: int, callback: Callable[[], object]) -> None:
        """Call `callback` between two turns, `delay_ms` from now."""
        heapq.heappush(self._events, (self.clock.monotonic_ms() + delay_ms, next(self._numbers), callback))

    def run_until(self, is_done: Callable[[], object], *, within_ms: int) -> bool:
        """Give turns until `is_done()` is true; return whether it is, which it may not be when the time is over."""
        end_ms = self.clock.monotonic_ms() + within_ms
        while not is_done():
            if self.clock.monotonic_ms() >= end_ms:
                return False
            self._step(end_ms)
        return True

    def run_for(self, length_ms: int) -> None:
        """Give turns for a time."""
        self.run_until(lambda: False, within_ms=length_ms)

    def _step(self, end_ms: int) -> None:
        now_ms = self.clock.monotonic_ms()
        if self._events and self._events[0][0] <= now_ms:
            heapq.heappop(self._events)[2]()
        elif ready := [loop for loop in self.loops if not loop.is_paused and loop.is_ready(now_ms / 1000)]:
            (ready[0] if len(ready) == 1 else self.random.choice(ready)).turn()
        else:
            self._steps = 0
            timers_s = min((loop.next_timer_s() for loop in self.loops if not loop.is_paused), default=math.inf)
            timers_ms = end_ms if timers_s == math.inf else math.ceil((timers_s - _RESOLUTION_S) * 1000)
            events_ms = self._events[0][0] if self._events else end_ms
            self.clock.advance(max(1, min(end_ms, timers_ms, events_ms) - now_ms))
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise NothingToDoError(f"{STEPS_MAX} turns, and the time has not passed")


def _described(context: dict[str, Any]) -> str:
    error = context.get("exception")
    lines = traceback.format_exception(error) if isinstance(error, BaseException) else []
    return f"{context.get('message')}: {error!r}\n{''.join(lines)}"
