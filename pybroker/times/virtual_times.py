"""The times of a broker whose parts have lanes.

The timer of a lane is called at the time of each of its tasks. That of an ordinary broker is called at the times of the wheel's
buckets too: for a timer of ten minutes five times, each of which would be a step of an advance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.purgatory.timer import OperationTimer
from pybroker.sharing.work import SLICE_S
from pybroker.times.lanes import LOGS
from pybroker.times.times import Times

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pybroker.clock import Clock, WakeUp
    from pybroker.purgatory.timer import TimerTask
    from pybroker.times.lanes import Lane, Lanes


class VirtualTimes(Times):
    """Each part has the time of its lane, and a timer of its own on it."""

    def __init__(self, lanes: Lanes) -> None:
        super().__init__(lanes[LOGS])
        self.lanes: Lanes = lanes

    def begin(self, settle: Callable[[], Awaitable[None]]) -> None:
        """Let the time be moved from now on."""
        self.lanes.settle = settle

    def later(self, delay_s: float, work: Callable[[], None]) -> WakeUp:
        """Call `work`, which looks after the logs, after a delay."""
        return self.lanes[LOGS].call_later(delay_s, work)

    def of(self, part: str) -> tuple[Clock, OperationTimer]:
        """Return the clock of a part, and a new timer on it."""
        lane = self.lanes[part]
        return lane, LaneTimer(lane)


class LaneTimer(OperationTimer):
    """A timing wheel that a lane advances."""

    __slots__ = ("_lane",)

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane, _never, slice_s=SLICE_S)
        self._lane = lane

    def add(self, task: TimerTask, delay_ms: int) -> None:
        """Let `task` expire `delay_ms` from now; if that is not positive, it expires before this returns."""
        super().add(task, self._lane.fewer(delay_ms) if task.is_look else delay_ms)
        if task.is_pending:
            self._lane.call_for(task, self.advance)

    def soon(self, work: Callable[[], None]) -> None:
        """Call `work` in the next turn."""
        self._lane.call_at(self._lane.monotonic_ms(), work)


class _Never:
    def cancel(self) -> None:
        """Do nothing, because nothing will be called."""


def _never(_when_ms: int, _callback: Callable[[], None]) -> WakeUp:
    return _Never()
