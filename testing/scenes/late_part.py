"""A late part of a response that holds its bytes and counts what happens to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pybroker.network.sender import PIECE_BYTES
from pybroker.protocol.parts import SendPart


class LatePart(SendPart):
    """A part that yields `content` in pieces; it can be cold, and it can announce a wrong size.

    Attributes:
        colds: how many of the next pulls need a read in a thread first.
        position: how many bytes were pulled.
        closed: how often `close` was called.
    """

    def __init__(self, content: bytes, piece_bytes: int = PIECE_BYTES, colds: int = 0, lack: int = 0) -> None:
        self.size = len(content) + lack
        self.content = content
        self.piece_bytes = piece_bytes
        self.colds = colds
        self.position = 0
        self.closed = 0

    def pull(self, bytes_max: int) -> Sequence[bytes | memoryview]:
        assert not self.closed
        start, self.position = self.position, min(self.position + min(self.piece_bytes, bytes_max), len(self.content))
        return [memoryview(self.content)[start : self.position]] if self.position > start else []

    def cold(self) -> Callable[[], None] | None:
        return self.warm if self.colds else None

    def warm(self) -> None:
        self.colds -= 1

    def close(self) -> None:
        self.closed += 1
