"""The clock of a broker, as a test sees and moves it: `broker.clock.advance("7d")`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pybroker.clock import SystemClock
from pybroker.times.lanes import LOGS, PARTS, Lanes

if TYPE_CHECKING:
    from collections.abc import Collection

    Duration = str | timedelta

UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
FORM: Final = re.compile(r"(?:\s*(\d+)\s*(ms|s|m|h|d))")


REAL_CLOCK: Final = (
    "the broker has the clock of the machine; to move its time, make it with virtual_time=True, or start it with "
    "pybroker.virtual.time=true"
)


class RealClockError(RuntimeError):
    """The broker has the clock of the machine, which no test can move."""


class BrokerClock:
    """The clock of a broker in the running event loop."""

    def __init__(self, lanes: Lanes | None) -> None:
        self.lanes = lanes

    def time_ms(self) -> int:
        """Return the broker's time in ms since 1970-01-01 UTC, which its logs have."""
        return (SystemClock() if self.lanes is None else self.lanes[LOGS]).time_ms()

    async def advance(self, duration: Duration, *, only: Collection[str] | None = None) -> None:
        """Let time pass for the broker, and return when everything is done that was due meanwhile.

        Args:
            duration: as "7d", "90m", "1h 30m", "30s", "500ms", or a timedelta.
            only: the parts for which it passes, of "logs", "groups", "transactions", "requests"; all by default.

        Raises RealClockError for a broker that was made without `virtual_time`, and ValueError for a bad argument.
        """
        delta_ms, parts = duration_ms(duration), parts_of(only)
        if self.lanes is None:
            raise RealClockError(REAL_CLOCK)
        await self.lanes.advance(delta_ms, parts)


def parts_of(only: Collection[str] | None) -> Collection[str]:
    """Return the parts for which time passes; all for None. Raises ValueError for a bad argument."""
    parts = PARTS if only is None else only
    if isinstance(parts, str) or not parts or (unknown := sorted({*parts} - {*PARTS})):
        wrong = "" if isinstance(parts, str) or not parts else f", which {', '.join(unknown)} is not"
        raise ValueError(f"only={only!r} must be a list of some of {', '.join(PARTS)}{wrong}")
    return parts


def duration_ms(duration: Duration) -> int:
    """Return a duration in ms. Raises ValueError for one that is negative, or has no unit, as a number."""
    if isinstance(duration, timedelta):
        delta_ms = duration // timedelta(milliseconds=1)
    elif isinstance(duration, str) and re.fullmatch(rf"(?:{FORM.pattern})+\s*", duration):
        delta_ms = sum(int(number) * UNITS_MS[unit] for number, unit in FORM.findall(duration))
    else:
        raise ValueError(f"{duration!r} is no duration such as '7d', '90m', '1h 30m', '30s', '500ms'")
    if delta_ms < 0:
        raise ValueError(f"{duration} is negative, and time does not go back")
    return delta_ms
