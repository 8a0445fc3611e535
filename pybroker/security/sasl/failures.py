"""The log lines about logins that failed: one per failure, but at most one in a second for each address.

Addresses are forgotten, those first that failed first, so that many of them take no memory.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pybroker.clock import Clock

logger = logging.getLogger(__name__)

LINE_MS_MIN: Final = 1_000
ADDRESSES_MAX: Final = 1_000


class FailureLog:
    """The failures of each address, and when they had a line.

    Attributes:
        failed: the number of failures.
    """

    __slots__ = ("_clock", "_lines", "failed")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: OrderedDict[str, tuple[int, int]] = OrderedDict()  # by address: when it had a line, failures since
        self.failed = 0

    def add(self, host: str, connection: object, *, user: str, reason: str) -> None:
        """Count a failure of a connection from `host`, and write a line unless there was one just now."""
        self.failed += 1
        now_ms = self._clock.monotonic_ms()
        written_ms, left_out = self._lines.get(host, (-LINE_MS_MIN, 0))
        if now_ms - written_ms < LINE_MS_MIN:
            self._lines[host] = written_ms, left_out + 1
            return
        self._lines[host] = now_ms, 0
        self._lines.move_to_end(host)
        if len(self._lines) > ADDRESSES_MAX:
            self._lines.popitem(last=False)
        named = f" as {user[:100]!r}" if user else ""
        more = f" ({left_out} more failures of this address since its last line)" if left_out else ""
        logger.info("Closing %s, whose login%s failed: %s%s", connection, named, reason, more)
