"""Where the parts of a broker have their time from: one clock, and the timers of the running event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pybroker.clock import SystemClock
from pybroker.purgatory.timer import OperationTimer
from pybroker.sharing.work import SLICE_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pybroker.clock import Clock, WakeUp
    from pybroker.times.lanes import Lanes

REQUESTS: Final = "requests"
GROUPS: Final = "groups"
TRANSACTIONS: Final = "transactions"


class Times:
    """The time of one broker. Brokers of tests have another, which a test moves for one part or another.

    Attributes:
        clock: the clock of the logs, and of everything that is no part with a timer.
        lanes: what moves the time of the parts; None if nothing does.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.lanes: Lanes | None = None
        self._timer: OperationTimer | None = None

    def begin(self, settle: Callable[[], Awaitable[None]]) -> None:
        """Note that the broker serves clients. `settle` waits until the broker has done what it has begun."""

    def later(self, delay_s: float, work: Callable[[], None]) -> WakeUp:
        """Call `work`, which looks after the logs, after a delay."""
        return asyncio.get_running_loop().call_later(delay_s, work)

    def of(self, _part: str) -> tuple[Clock, OperationTimer]:
        """Return the clock and the timer of REQUESTS that wait, of GROUPS, or of TRANSACTIONS."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = OperationTimer(
                self.clock, lambda when_ms, callback: loop.call_at(when_ms / 1000, callback), slice_s=SLICE_S
            )
        return self.clock, self._timer
