"""The log lines about logins that failed: one per failure, but at most one in a second for each address.

Addresses are forgotten, those first that failed first, so that many of them take no memory.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

LINE_NS_MIN: Final = 1_000_000_000
ADDRESSES_MAX: Final = 1_000


class FailureLog:
    """What is to be written about the failures of each address.

    Attributes:
        failed: the number of failures.
    """

    __slots__ = ("_lines", "_now_ns", "failed")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._lines: OrderedDict[str, tuple[int, int]] = OrderedDict()  # by address: when it had a line, failures since
        self.failed = 0

    def add(self, host: str, connection: object, *, user: str, reason: str) -> None:
        """Count a failure of a connection from `host`, and write a line unless there was one just now."""
        self.failed += 1
        now_ns = self._now_ns()
        written_ns, left_out = self._lines.get(host, (-LINE_NS_MIN, 0))
        if now_ns - written_ns < LINE_NS_MIN:
            self._lines[host] = written_ns, left_out + 1
            return
        self._lines[host] = now_ns, 0
        self._lines.move_to_end(host)
        if len(self._lines) > ADDRESSES_MAX:
            self._lines.popitem(last=False)
        named = f" as {user[:100]!r}" if user else ""
        more = f" ({left_out} more failures of this address since its last line)" if left_out else ""
        logger.info("Closing %s, whose login%s failed: %s%s", connection, named, reason, more)
