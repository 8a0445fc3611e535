# cython: annotation_typing=False, cdivision=True
"""The machine's clocks in Python; `_clock_native` is this same text, compiled with the types of `_clock_native.pxd`."""

from __future__ import annotations

import time

__all__ = ["SystemClock"]


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def time_ms(self) -> int:
        """Return the wall time in ms."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return the monotonic time in ms; the same clock as the event loop's."""
        return time.monotonic_ns() // 1_000_000
