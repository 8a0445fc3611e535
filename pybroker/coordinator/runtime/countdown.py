"""A callback that is called once several others have been."""

from __future__ import annotations

from collections.abc import Callable

from pybroker.protocol.error_codes import ErrorCode


class Countdown:
    """A count of results that are expected; `done` gets the first error among them, or NONE, when the last one is noted."""

    __slots__ = ("_code", "_count", "_done")

    def __init__(self, count: int, done: Callable[[ErrorCode], None]) -> None:
        self._count = count
        self._done = done
        self._code = ErrorCode.NONE

    def note(self, code: ErrorCode) -> None:
        """Note a result."""
        self._count -= 1
        self._code = self._code or code
        if not self._count:
            self._done(self._code)
