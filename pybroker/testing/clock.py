"""The clock of a broker elsewhere, for tests that block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from pybroker.times.clock import BrokerClock, Duration


class BlockingClock:
    """The clock of a broker elsewhere. `run` runs a coroutine where the broker is."""

    def __init__(self, clock: BrokerClock, run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._clock, self._run = clock, run

    def time_ms(self) -> int:
        """Return the broker's time in ms since 1970-01-01 UTC, which its logs have."""
        return self._clock.time_ms()

    def advance(self, duration: Duration, *, only: Collection[str] | None = None) -> None:
        """Let time pass for the broker, and return when everything is done that was due meanwhile.

        Args:
            duration: as "7d", "90m", "1h 30m", "30s", "500ms", or a timedelta.
            only: the parts for which it passes, of "logs", "groups", "transactions", "requests"; all by default.

        Raises RealClockError for a broker that was made without `virtual_time`, and ValueError for a bad argument.
        """
        self._run(self._clock.advance(duration, only=only))
