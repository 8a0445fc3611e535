"""The log lines about logins that failed: one per failure, but no more than LINES_MAX in WINDOW_MS for each address.

Addresses are forgotten, those first whose window began first, so that many of them take no memory.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pybroker.clock import Clock

logger = logging.getLogger(__name__)

LINES_MAX: Final = 50
WINDOW_MS: Final = 10_000
ADDRESSES_MAX: Final = 1_000


class FailureLog:
    """The failures of each address, and when they had a line.

    Attributes:
        failed: the number of failures.
    """

    __slots__ = ("_clock", "_lines", "failed")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: OrderedDict[str, tuple[int, int]] = OrderedDict()  # by address: the begin of its window, failures in it
        self.failed = 0

    def add(self, host: str, connection: object, *, user: str, reason: str) -> None:
        """Count a failure of a connection from `host`, and write a line unless there was one just now."""
        self.failed += 1
        now_ms = self._clock.monotonic_ms()
        since_ms, count = self._lines.get(host, (-WINDOW_MS, 0))
        left_out = 0
        if now_ms - since_ms >= WINDOW_MS:
            since_ms, count, left_out = now_ms, 0, max(count - LINES_MAX, 0)
            self._lines.pop(host, None)  # the last one again
        self._lines[host] = since_ms, count + 1
        if len(self._lines) > ADDRESSES_MAX:
            self._lines.popitem(last=False)
        if count < LINES_MAX:
            named = f" as {user[:100]!r}" if user else ""
            more = f" (the failures of this address before had {left_out} lines more)" if left_out else ""
            logger.info("Closing %s, whose login%s failed: %s%s", connection, named, reason, more)
