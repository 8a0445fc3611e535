"""Gives the cleanings turns on the loop: one after the other, in their order, with pauses between, and no faster than the limit.

The limit
    All cleanings share `log.cleaner.io.max.bytes.per.second`. Bytes that were read or written are a debt, which is paid
    off at the rate in force; no turn begins while there is one, and a turn ends when it owes what `OWED_S` pay. So in any
    time, no more is read and written than the rate allows in that time and `OWED_S`, and one batch. A new rate holds at the
    latest after `WAIT_S_MAX`, whatever the old one was.

The loop
    A turn costs about `TURN_NS` of the loop's time, unless a single batch costs more, and then the loop has at least
    `PAUSE_S` for requests, however many cleanings there are.

Source: Throttler of Kafka, which counts the bytes of all cleaner threads, in intervals of 300 ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pybroker.log.cleaner.steps import Work
from pybroker.records import kernels

if TYPE_CHECKING:
    from pybroker.clock import Clock

TURN_NS: Final = 1_000_000
PAUSE_S: Final = 0.002
WAIT_S_MAX: Final = 0.3
OWED_S: Final = 0.05

NS_PER_KILOBYTE: Final = 400
NS_PER_BATCH: Final = 20_000
NS_PER_RECORD: Final = 400 if kernels.IS_NATIVE else 2_000

Later = Callable[[float, Callable[[], None]], object]


class Throttle:
    """The debt of bytes. `rate` returns the bytes per second in force."""

    __slots__ = ("_clock", "_debt", "_paid_ms", "_rate")

    def __init__(self, clock: Clock, rate: Callable[[], float]) -> None:
        self._clock = clock
        self._rate = rate
        self._debt = 0.0
        self._paid_ms = clock.monotonic_ms()

    def spend(self, count: int) -> None:
        """Note `count` bytes that were read or written."""
        self._debt += count

    @property
    def is_spent(self) -> bool:
        """Whether a turn has to end."""
        return self._debt >= OWED_S * max(self._rate(), 1.0)

    def wait_s(self) -> float:
        """Return how long to wait before the next turn, at most `WAIT_S_MAX`; then ask again."""
        rate, now_ms = max(self._rate(), 1.0), self._clock.monotonic_ms()
        self._debt = max(0.0, self._debt - rate * ((now_ms - self._paid_ms) / 1000))
        self._paid_ms = now_ms
        return min(self._debt / rate, WAIT_S_MAX)


class Turns:
    """The turns of all cleanings. Belongs to the loop; `later(delay_s, work)` runs work on it."""

    __slots__ = ("_is_running", "_is_scheduled", "_later", "_spent_ns", "_throttle", "_waiting")

    def __init__(self, later: Later, throttle: Throttle) -> None:
        self._later = later
        self._throttle = throttle
        self._waiting: deque[Callable[[], None]] = deque()
        self._spent_ns = 0
        self._is_running = self._is_scheduled = False

    @property
    def is_over(self) -> bool:
        """Whether the turn has used its time, so that the next step needs another `request`."""
        return self._spent_ns >= TURN_NS or self._throttle.is_spent

    def spend(self, step: Work | int) -> None:
        """Note what a step has done on the loop."""
        work = Work(step) if isinstance(step, int) else step
        self._throttle.spend(work.bytes)
        self._spent_ns += work.bytes * NS_PER_KILOBYTE // 1000 + work.batches * NS_PER_BATCH + work.records * NS_PER_RECORD

    def request(self, turn: Callable[[], None]) -> None:
        """Call `turn` as soon as it may run: at once if there is time left, nothing waits and no bytes are owed."""
        self._waiting.append(turn)
        if not self._is_scheduled and not self._is_running:
            self._run()

    def _run(self) -> None:
        self._is_running = True
        wait_s = 0.0
        try:
            while self._waiting and not self.is_over:
                wait_s = self._throttle.wait_s()
                if wait_s > PAUSE_S / 2:
                    break
                self._waiting.popleft()()
        finally:
            self._is_running = False
            if self._waiting:
                self._is_scheduled = True
                self._later(max(PAUSE_S, wait_s, self._throttle.wait_s()), self._resume)

    def _resume(self) -> None:
        self._is_scheduled = False
        self._spent_ns = 0
        self._run()
