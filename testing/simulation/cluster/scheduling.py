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
from collections import deque
from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import TYPE_CHECKING, Any

from testing.simulation.loop import NothingToDoError, SimulatedLoop

if TYPE_CHECKING:
    from pybroker.clock import ManualClock

STEPS_MAX = 200_000
"""Turns and events within a millisecond of the clock: more of them are a loop without an end."""
_RESOLUTION_S = 0.0005
_CALLBACKS_AT_ONCE = 20
_THREAD = threading.get_ident()


class SharedLoop(SimulatedLoop):
    """The loop of one process. Exceptions that no task takes are in `problems`."""

    def __init__(self, clock: ManualClock, random: Random, problems: list[str], interleaving: float = 0.0) -> None:
        super().__init__(clock, random, interleaving)
        self.is_paused = False
        self.is_fine = True
        """Whether a turn has only what was ready when it began, as asyncio's has, so that others run before what follows."""
        self._ready: deque[Any]  # asyncio's own queue, and its heap of timers
        self._scheduled: list[Any]
        self._thread_id: int | None = None
        self.set_exception_handler(lambda _loop, context: problems.append(_described(context)))

    def is_ready(self, until_s: float) -> bool:
        """Return whether a turn would do something now, when timers before `until_s` are due."""
        if self._ready or (self._scheduled and self._scheduled[0]._when < until_s):
            return True
        for thread in self.threads:  # noqa: SIM110  (a generator costs more than the few threads)
            if thread.jobs:
                return True
        return False

    def next_timer_s(self) -> float:
        """Return the time of the next timer; infinity if there is none."""
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            self._drop_timer()
        return scheduled[0]._when if scheduled else math.inf

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
            self._run_once()
        finally:
            asyncio._set_running_loop(None)
            self._thread_id = None

    def _run_once(self) -> None:
        """Do what asyncio's does, without a selector: that takes a third of a history."""
        ready, scheduled = self._ready, self._scheduled
        until_s = self.clock.monotonic_ms() / 1000 + _RESOLUTION_S
        self.wait(0 if ready or (scheduled and scheduled[0]._when < until_s) else None)
        while scheduled and (scheduled[0]._cancelled or scheduled[0]._when < until_s):
            handle = self._drop_timer()
            if not handle._cancelled:
                ready.append(handle)
        for _ in range(len(ready) if self.is_fine else _CALLBACKS_AT_ONCE):
            if not ready:
                break
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _drop_timer(self) -> Any:
        handle = heapq.heappop(self._scheduled)
        handle._scheduled = False
        return handle

    def call_soon(self, callback: Callable[..., object], *arguments: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        handle = asyncio.Handle(callback, arguments, self, context)
        self._ready.append(handle)
        return handle

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
        self._ready.clear()
        self._scheduled.clear()
        self.close()


class Scheduler:
    """Draws which loop makes the next turn, and lets time pass when none is ready."""

    def __init__(self, clock: ManualClock, random: Random, *, is_fine: bool = True) -> None:
        """Begin without loops; `is_fine` is that of the loops of processes."""
        self.clock, self.random, self.is_fine = clock, random, is_fine
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
        elif ready := self._ready_loops(now_ms / 1000 + _RESOLUTION_S):
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

    def _ready_loops(self, until_s: float) -> list[SharedLoop]:
        ready = []
        for loop in self.loops:
            if not loop.is_paused and loop.is_ready(until_s):
                ready.append(loop)  # noqa: PERF401  (a list comprehension is slower here)
        return ready


def _described(context: dict[str, Any]) -> str:
    error = context.get("exception")
    lines = traceback.format_exception(error) if isinstance(error, BaseException) else []
    return f"{context.get('message')}: {error!r}\n{''.join(lines)}"
