"""Drives one timing wheel from a clock and one pending wake-up.

The wheel reports when it next has something to do; this object asks for one call at that time and no other. A timer that is added
later than the pending wake-up changes nothing; only an earlier timer re-arms it. So the cost on the event loop is a call per
non-empty bucket, not per timer, and an idle timer costs nothing.

`call_at(when_ms, callback)` is injected, because this layer knows no event loop: `when_ms` is in the clock's monotonic
milliseconds. With asyncio it is `lambda when_ms, callback: loop.call_at(when_ms / 1000, callback)`. A test may pass a function
that does nothing and call `advance` after moving its manual clock.
"""

from __future__ import annotations

import abc
import logging
import math
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol

from pybroker.clock import WakeUp
from pybroker.purgatory.timing_wheel import Timer, TimingWheel

if TYPE_CHECKING:
    from pybroker.clock import Clock

logger = logging.getLogger(__name__)


NEVER_MS: Final = math.inf
AT_WORK_MS: Final = -math.inf
"""The time of the wake-up while tasks expire: what they add arms none, because that is done once at the end."""
MOVED_AT_ONCE: Final = 200
"""The tasks of a bucket that are placed again before the time is looked at: about 1 us for each."""

CallAt = Callable[[int, Callable[[], None]], WakeUp]


class TimerTask(Timer, abc.ABC):
    """A timer that knows what to do when its time has come. `is_look`: for its owner to look at what may be due, at intervals."""

    __slots__ = ()
    is_look = False

    @abc.abstractmethod
    def expire(self) -> None:
        """Act on the expiry: called once, after the task has left the wheel, unless it was cancelled before."""


class PurgatoryTimer(Protocol):
    """The part of a timer that a purgatory needs. `slice_s` is for how long an event may hold the loop."""

    slice_s: float

    def add(self, task: TimerTask, delay_ms: int) -> None:
        """Let `task` expire `delay_ms` from now, or at once when that is not positive."""

    def soon(self, work: Callable[[], None]) -> None:
        """Call `work` in the next turn of the loop."""


class OperationTimer:
    """A timing wheel on a clock. Belongs to the loop, like the tasks in it."""

    __slots__ = ("_call_at", "_clock", "_wake_up", "_wake_up_ms", "_wheel", "slice_s")

    def __init__(self, clock: Clock, call_at: CallAt, *, slice_s: float = math.inf) -> None:
        """Drive an empty wheel. `slice_s` bounds how long expiries hold the loop, where `call_at` calls back."""
        self.slice_s = slice_s
        self._clock = clock
        self._call_at = call_at
        self._wheel = TimingWheel(clock.monotonic_ms())
        self._wake_up: WakeUp | None = None
        self._wake_up_ms: float = NEVER_MS

    @property
    def next_expiration_ms(self) -> int | None:
        """When `advance` has something to do, in monotonic ms; None when idle."""
        return self._wheel.next_expiration_ms

    def add(self, task: TimerTask, delay_ms: int) -> None:
        """Let `task` expire `delay_ms` from now; if that is not positive, it expires before this returns."""
        wheel = self._wheel
        now_ms = self._clock.monotonic_ms()
        expiration_ms = now_ms + delay_ms
        if self._wake_up is None and wheel.next_expiration_ms is None:
            wheel.collect(now_ms)  # an idle wheel stood still; from here the delay finds its finest bucket
        if delay_ms <= 0 or not wheel.add(task, expiration_ms):
            _expire(task)
        elif expiration_ms < self._wake_up_ms:
            self._arm()

    def advance(self) -> int:
        """Expire the tasks that are due by the clock, and return their number."""
        expired = self._wheel.advance(self._clock.monotonic_ms())
        for task in expired:
            assert isinstance(task, TimerTask)
            _expire(task)
        self._arm()
        return len(expired)

    def close(self) -> None:
        """Drop the pending wake-up; tasks still in the wheel never expire."""
        if self._wake_up is not None:
            self._wake_up.cancel()
        self._wake_up, self._wake_up_ms = None, NEVER_MS

    def _arm(self) -> None:
        next_ms = self._wheel.next_expiration_ms
        if next_ms is None or self._wake_up_ms <= next_ms:
            return
        if self._wake_up is not None:
            self._wake_up.cancel()
        self._wake_up, self._wake_up_ms = self._call_at(next_ms, self._woken), next_ms

    def _woken(self) -> None:
        """Move and expire tasks for at most `slice_s`, and the others in the next turn: thousands may be due together."""
        wheel, now_ms = self._wheel, self._clock.monotonic_ms()
        self._wake_up, self._wake_up_ms = None, AT_WORK_MS
        end = perf_counter() + self.slice_s
        while True:
            if not wheel.has_expired:
                wheel.collect(now_ms, most=MOVED_AT_ONCE)
            if (task := wheel.next_expired()) is not None:
                assert isinstance(task, TimerTask)
                _expire(task)
            if not wheel.is_due(now_ms):
                self._wake_up_ms = NEVER_MS
                self._arm()
                return
            if perf_counter() >= end:
                self._wake_up, self._wake_up_ms = self._call_at(now_ms, self._woken), now_ms
                return

    def soon(self, work: Callable[[], None]) -> None:
        """Call `work` in the next turn."""
        self._call_at(self._clock.monotonic_ms(), work)


def _expire(task: TimerTask) -> None:
    try:
        task.expire()
    except Exception:  # a bug in one task must not cost the others their time
        logger.exception("A timer task failed, which is a bug: %r", task)
