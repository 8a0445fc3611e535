"""Bounds the bytes per second that all cleanings together read and write: `log.cleaner.io.max.bytes.per.second`.

Bytes that were read or written are a debt, which is paid off at the rate in force. If the debt takes longer than
`OWED_S` to pay off, a cleaning waits until its own bytes and all before them are paid, whatever others spend meanwhile. So in T
seconds all cleanings together read and write at most rate * (T + `OWED_S`), and one batch of each log. A new rate holds at the
latest after `WAIT_S_MAX`, whatever the old one was.

Source: Throttler of Kafka, which counts the bytes of all cleaner threads, in intervals of 300 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pybroker.clock import Clock
    from pybroker.sharing.work import Work

WAIT_S_MAX: Final = 0.3
WAIT_S_MIN: Final = 0.001
OWED_S: Final = 0.05

Later = Callable[[float, Callable[[], None]], object]


class Throttle:
    """The debt of bytes. `rate` returns the bytes per second in force; `later(delay_s, work)` calls work after a delay."""

    __slots__ = ("_clock", "_later", "_paid", "_paid_ms", "_rate", "_spent")

    def __init__(self, clock: Clock, rate: Callable[[], float], later: Later) -> None:
        self._clock = clock
        self._rate = rate
        self._later = later
        self._spent = self._paid = 0.0
        self._paid_ms = clock.monotonic_ms()

    def spend(self, count: int) -> Work[None]:
        """Note `count` bytes that were read or written; give others their turn, and wait while too much is owed."""
        self._spent += count
        own = self._spent
        if own - self._paid >= OWED_S * max(self._rate(), 1.0):
            while (wait_s := self._wait_s(own)) >= WAIT_S_MIN:
                yield _Delay(self._later, min(wait_s, WAIT_S_MAX))
        yield None

    def _wait_s(self, upto: float) -> float:
        """Return how long it takes from now on until the first `upto` bytes are paid."""
        rate, now_ms = max(self._rate(), 1.0), self._clock.monotonic_ms()
        self._paid = min(self._spent, self._paid + rate * ((now_ms - self._paid_ms) / 1000))
        self._paid_ms = now_ms
        return (upto - self._paid) / rate


class _Delay:
    """A `Wait` of some time."""

    __slots__ = ("_delay_s", "_later")

    def __init__(self, later: Later, delay_s: float) -> None:
        self._later = later
        self._delay_s = delay_s

    def add_done_callback(self, callback: Callable[[_Delay], object], /) -> None:
        """Begin, and call `callback` at the end."""

        def done() -> None:
            callback(self)

        self._later(self._delay_s, done)
