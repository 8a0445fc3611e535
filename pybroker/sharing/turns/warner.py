"""Warnings in the log of what may happen often: of each name at most one in 10 s, with the number of those that had none."""

from __future__ import annotations

import logging
from time import monotonic_ns
from typing import Final

logger = logging.getLogger(__name__)

_PAUSE_NS: Final = 10_000_000_000


class Warner:
    """Warns of one kind of event.

    Args:
        text: the line in the log, with a place for the event, and one for the number of events that had no line.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._warned_ns: dict[str, int] = {}
        self._unsaid: dict[str, int] = {}

    def warn(self, event: object, name: str = "") -> None:
        """Log the event, unless one with the same name was logged shortly before."""
        now_ns = monotonic_ns()
        if now_ns - self._warned_ns.get(name, -_PAUSE_NS) < _PAUSE_NS:
            self._unsaid[name] = self._unsaid.get(name, 0) + 1
            return
        self._warned_ns[name] = now_ns
        logger.warning(self._text, event, self._unsaid.pop(name, 0))
