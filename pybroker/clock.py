"""The only source of time; a manual clock drives tests. The machine's clocks are native where that part was built."""

from __future__ import annotations

from typing import Final, Protocol

from pybroker import _clock_python
from pybroker._clock_python import SystemClock
from pybroker.native import choose

__all__ = ["IS_NATIVE", "Clock", "ManualClock", "SystemClock", "WakeUp"]


class Clock(Protocol):
    """Time in integer milliseconds."""

    def time_ms(self) -> int:
        """Return the wall time since 1970-01-01 UTC; it may jump."""

    def monotonic_ms(self) -> int:
        """Return a time that never goes back, from an arbitrary start; for every timeout."""


class WakeUp(Protocol):
    """A pending call, as what runs work later returns it; asyncio's TimerHandle is an example."""

    def cancel(self) -> None:
        """Cancel the call."""


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


IS_NATIVE: Final = choose(_clock_python, globals())
