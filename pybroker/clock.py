"""The only source of time; a manual clock drives tests."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Time in integer milliseconds."""

    def time_ms(self) -> int:
        """Return the wall time since 1970-01-01 UTC; it may jump."""

    def monotonic_ms(self) -> int:
        """Return a time that never goes back, from an arbitrary start; for every timeout."""


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def time_ms(self) -> int:
        """Return the wall time in ms."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return the monotonic time in ms; the same clock as the event loop's."""
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until `advance`."""

    __slots__ = ("_now_ms",)

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def time_ms(self) -> int:
        """Return the time set so far, in ms."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """Return the same as `time_ms`."""
        return self._now_ms

    def advance(self, delta_ms: int) -> None:
        """Let `delta_ms` (>= 0) pass."""
        assert delta_ms >= 0
        self._now_ms += delta_ms
