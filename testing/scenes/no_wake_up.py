"""A wake-up that never comes, for operation timers that a test advances itself."""

from __future__ import annotations

from collections.abc import Callable


class NoWakeUp:
    """The handle of a wake-up that was never scheduled."""

    def cancel(self) -> None:
        """Do nothing, because nothing was scheduled."""


def never(_when_ms: int, _callback: Callable[[], None]) -> NoWakeUp:
    """Schedule nothing; the test calls `OperationTimer.advance`."""
    return NoWakeUp()
