"""Runs work at intervals on the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pybroker.clock import WakeUp

logger = logging.getLogger(__name__)

_DELAY_MS_MAX: Final = 24 * 3_600_000  # beyond this an event loop's timer may overflow


class Periodic:
    """Calls each registered function at its interval until `stop`. A call that fails is logged, and repeated at the next
    interval.

    `on_bug` is called for each call that failed. `later(delay_s, work)` calls work on the loop; by default it is that of the
    running loop.
    """

    __slots__ = ("_handles", "_is_stopped", "_later", "_on_bug")

    def __init__(self, on_bug: Callable[[], None], later: Callable[[float, Callable[[], None]], WakeUp] | None = None) -> None:
        self._on_bug, self._later = on_bug, later
        self._handles: dict[int, WakeUp] = {}
        self._is_stopped = False

    def every(self, interval_ms: int, work: Callable[[], object], initial_ms: int | None = None) -> None:
        """Call `work` after `initial_ms` (default: the interval) and then every `interval_ms`."""
        later = self._later or asyncio.get_running_loop().call_later
        slot = len(self._handles)

        def turn() -> None:
            try:
                work()
            except Exception:
                logger.exception("A periodic task failed, which is a bug; it runs again at its next interval")
                self._on_bug()
            if not self._is_stopped:
                schedule(interval_ms)

        def schedule(delay_ms: int) -> None:
            self._handles[slot] = later(min(delay_ms, _DELAY_MS_MAX) / 1000, turn)

        schedule(interval_ms if initial_ms is None else initial_ms)

    def stop(self) -> None:
        """Cancel all further calls."""
        self._is_stopped = True
        for handle in self._handles.values():
            handle.cancel()
