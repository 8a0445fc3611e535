"""Work on one state, done one after the other and each in slices, between which the loop serves others.

No other work of the mailbox runs between two slices of a work, so each sees the state before another work or after it. Most work
ends within a slice and holds up nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

from pybroker.sharing.turns.jobs import job
from pybroker.sharing.work import run_slice, slice_end

if TYPE_CHECKING:
    from pybroker.sharing.work import Pausing

Begin = Callable[[], "Pausing[None] | None"]
"""Begins work, and returns the rest of it if it takes long."""

Failed = Callable[[Exception], None]
"""A callback that gets what the work has raised."""


class Mailbox:
    """A queue of work. `call_soon` runs its argument in the loop's next iteration; `name` shows a person what the work is."""

    __slots__ = ("_call_soon", "_failed", "_name", "_waiting", "_work", "is_busy")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], name: str) -> None:
        self._call_soon = call_soon
        self._name = name
        self._waiting: deque[tuple[Begin, Failed]] = deque()
        self._work: Pausing[None] | None = None
        self._failed: Failed
        self.is_busy = False  # work is under way or waits

    def run(self, begin: Begin, failed: Failed) -> None:
        """Do the work after all earlier work; at once if there is none."""
        self._waiting.append((begin, failed))
        if not self.is_busy:
            self.is_busy = True
            self._slice()

    def add(self, begin: Begin, failed: Failed) -> None:
        """Do work as `run` does, but not before the next turn."""
        self._waiting.append((begin, failed))
        if not self.is_busy:
            self.is_busy = True
            self._call_soon(self._slice)

    def _slice(self) -> None:
        end = slice_end()
        try:
            with job(self._name):
                while self._work is not None or self._waiting:
                    self._proceed(end)
                    if perf_counter() >= end:
                        break
        finally:  # whatever was raised, the rest is done
            self.is_busy = self._work is not None or bool(self._waiting)
            if self.is_busy:
                self._call_soon(self._slice)

    def _proceed(self, end: float) -> None:
        """Continue the work under way, or begin the next, until the work ends or the slice does."""
        try:
            if self._work is None:
                begin, self._failed = self._waiting.popleft()
                self._work = begin()
            if self._work is None or run_slice(self._work, end)[0]:
                self._work = None
        except Exception as error:
            self._work = None
            self._failed(error)
