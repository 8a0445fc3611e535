"""A manual clock whose wall time can be set, as an administrator or NTP sets that of a machine."""

from __future__ import annotations

from pybroker.clock import ManualClock


class SettableClock(ManualClock):
    """A manual clock: both of its times are the same until `jump`, and pass in the same way after it."""

    __slots__ = ("_ahead_ms",)

    def __init__(self, now_ms: int) -> None:
        super().__init__(now_ms)
        self._ahead_ms = 0

    def time_ms(self) -> int:
        """Return the wall time in ms."""
        return self.monotonic_ms() + self._ahead_ms

    def jump(self, delta_ms: int) -> None:
        """Set the wall time ahead by `delta_ms`, or back where that is negative."""
        self._ahead_ms += delta_ms
