"""An operation that waits for an event or for its time, whichever comes first, and is completed exactly once.

Examples: a fetch that waits for enough bytes, a produce that waits for its followers, a join that waits for the other members.
The operation *is* its entry in the timing wheel, so that completing it takes it out of the timer at once and allocates nothing.

    created -> try_complete() true -> completed
            -> watched by a purgatory, with a timer -> an event's try_complete() true -> completed
                                                    -> its time comes                 -> completed, expired

Source: DelayedOperation; seed document on the purgatory (2015).
"""

from __future__ import annotations

import abc
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from pybroker.purgatory.timer import TimerTask

if TYPE_CHECKING:
    from pybroker.purgatory.purgatory import Purgatory


class DelayedOperation(TimerTask):
    """Subclasses say when the operation can be completed and what completing it does.

    `is_completed` is read on the hot path; only `force_complete` sets it.
    """

    __slots__ = ("_keys", "_purgatory", "is_completed")

    def __init__(self) -> None:
        super().__init__()
        self.is_completed = False
        self._purgatory: Purgatory | None = None  # who watches this operation and counts it as delayed
        self._keys: Sequence[Hashable] = ()  # under which it is watched

    @abc.abstractmethod
    def try_complete(self) -> bool:
        """Complete the operation if its condition holds. Returns True only if this very call completed it."""

    @abc.abstractmethod
    def on_complete(self) -> None:
        """What completing does: called exactly once, by event or by time. By now the operation has left the timer."""

    def on_expiration(self) -> None:
        """Called after `on_complete` when it was the time that completed the operation."""

    def force_complete(self) -> bool:
        """Complete now, unless that has happened. Returns whether this call did it, so that exactly one caller is told True."""
        if self.is_completed:
            return False
        self.is_completed = True
        self.cancel()
        purgatory = self._purgatory
        if purgatory is not None:
            self._purgatory = None
            purgatory.delayed -= 1
            purgatory.completed[self] = None
        self.on_complete()
        return True

    def expire(self) -> None:
        """The timer's call when the time has come."""
        purgatory = self._purgatory
        if (
            purgatory is not None and self.force_complete()
        ):  # None: completed, or cancelled for its key, by what expired just before
            self.on_expiration()
            purgatory.purge_if_due()
