"""The log lines about logins and TLS handshakes that failed: one for each, but at most LINES_MAX in WINDOW_MS for an address.

Addresses are forgotten, those first whose window began first, so that many of them take no memory.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

LINES_MAX: Final = 50
WINDOW_MS: Final = 10_000
ADDRESSES_MAX: Final = 1_000


class FailureLog:
    """The failures of each address, and when they had a line.

    Attributes:
        failed: the number of failures.
    """

    __slots__ = ("_lines", "_now_ms", "failed")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """`now_ms` returns a time that never goes back."""
        self._now_ms = now_ms
        self._lines: OrderedDict[str, tuple[int, int]] = OrderedDict()  # by address: the begin of its window, failures in it
        self.failed = 0

    def add(self, host: str, text: str) -> None:
        """Count a failure of a connection from `host`, and write a line with the text, unless the address has had enough."""
        self.failed += 1
        now_ms = self._now_ms()
        since_ms, count = self._lines.get(host, (-WINDOW_MS, 0))
        left_out = 0
        if now_ms - since_ms >= WINDOW_MS:
            since_ms, count, left_out = now_ms, 0, max(count - LINES_MAX, 0)
            self._lines.pop(host, None)  # the last one again
        self._lines[host] = since_ms, count + 1
        if len(self._lines) > ADDRESSES_MAX:
            self._lines.popitem(last=False)
        if count < LINES_MAX:
            more = f" (the failures of this address before had {left_out} lines more)" if left_out else ""
            logger.info("%s%s", text, more)
