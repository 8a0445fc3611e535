"""Reads a file that another process may own, through one window of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

WINDOW: Final = 256 << 10


class DataFile:
    """A file that is open for reading only. `size` is its size when it was opened, or when `grow` last looked."""

    __slots__ = ("_fd", "_window", "_window_start", "path", "size")

    def __init__(self, path: Path) -> None:
        """Open the file. Raises OSError."""
        self.path = path
        self._fd = os.open(path, os.O_RDONLY)
        self.size = os.fstat(self._fd).st_size
        self._window, self._window_start = b"", 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /) -> None:
        os.close(self._fd)

    def grow(self) -> bool:
        """Look at the size again, and return whether the file has grown."""
        size = os.fstat(self._fd).st_size
        has_grown = size > self.size
        if has_grown:
            self.size, self._window = size, b""
        return has_grown

    def read(self, length: int, position: int) -> bytes:
        """Return the bytes from `position` on, at most `length`; fewer only at the end of the file. Raises OSError."""
        length = min(length, self.size - position)
        if length <= 0:
            return b""
        at = position - self._window_start
        if not 0 <= at <= len(self._window) - length:
            if length >= WINDOW:
                return os.pread(self._fd, length, position)
            self._window, self._window_start, at = os.pread(self._fd, WINDOW, position), position, 0
        return self._window[at : at + length]
