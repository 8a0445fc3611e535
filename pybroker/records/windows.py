"""A window that moves over data which comes in pieces, for the conversion of records that are never in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

WINDOW_BYTES: Final = 1 << 20
"""A window that has this much, and still not one whole record, does not grow any more."""


class Window:
    """The part of the data that is in memory and was not used yet. `position` is where it begins in the whole."""

    __slots__ = ("_pieces", "data", "position")

    def __init__(self, pieces: Iterator[bytes | memoryview]) -> None:
        self._pieces = pieces
        self.data: bytes | memoryview = b""
        self.position = 0

    def grow(self) -> bool:
        """Take the next piece in. Returns False if there is none."""
        for piece in self._pieces:
            if piece:
                self.data = b"".join((self.data, piece)) if self.data else piece
                return True
        return False

    def head(self, size: int) -> bytes:
        """Return a copy of the first `size` bytes, fewer if the data ends before."""
        while len(self.data) < size and self.grow():
            pass
        return bytes(self.data[:size])

    def drop(self, size: int) -> None:
        """Leave out the first `size` bytes, all of which are there."""
        self.data = memoryview(self.data)[size:]
        self.position += size

    def run(self, size: int) -> Iterator[bytes | memoryview]:
        """Yield the next `size` bytes, parts of the pieces, and leave them out; fewer if the data ends before."""
        while size > 0 and (self.data or self.grow()):
            part = memoryview(self.data)[:size]
            self.drop(len(part))
            size -= len(part)
            yield part

    def skip(self, size: int) -> None:
        """Leave out the next `size` bytes."""
        for _ in self.run(size):
            pass


def taken(pieces: Iterator[bytes | memoryview], bytes_max: int) -> tuple[list[bytes | memoryview], bool]:
    """Return the first pieces, and whether they are all; if not, they have more than `bytes_max` bytes together."""
    found: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        found.append(piece)
        size += len(piece)
        if size > bytes_max:
            return found, False
    return found, True
