"""A background whose slices a test takes, and whose clock stands still but for the looks at it: the same slices in each run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pybroker.sharing.background import SLICE_NS, Background

STEPS: Final = 20
"""The yields of a slice."""


class Timer:
    """A timer that is not cancelled."""

    def cancel(self) -> None:
        """Do nothing: a background that was stopped does nothing when the timer is due."""


def background(
    later: Callable[[float, Callable[[], None]], object], *, on_bug: Callable[[], None] = lambda: None, steps: int = STEPS
) -> Background:
    """Return a background with slices of about this many yields; `later` gets their timers."""
    now_ns = 0

    def look() -> int:
        nonlocal now_ns
        now_ns += SLICE_NS // steps
        return now_ns

    def begin_timer(delay_s: float, work: Callable[[], None]) -> Timer:
        later(delay_s, work)
        return Timer()

    return Background(on_bug, begin_timer, look)
