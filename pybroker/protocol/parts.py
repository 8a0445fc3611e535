"""The pieces of a message that is sent: bytes that exist, and bytes that are made when the socket can take them."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias


class SendPart(abc.ABC):
    """A piece of a response with a known size whose bytes are made late: a slice of a log, or its conversion to an old format.

    Attributes:
        size: exact number of bytes that `pull` yields in all; it never changes after creation.
        makes_bytes: whether `pull` makes new bytes in memory, which must be gone before the next pull; otherwise it returns
            views of existing memory, such as a mapped file.
    """

    __slots__ = ()

    makes_bytes: ClassVar[bool] = False
    size: int

    @abc.abstractmethod
    def pull(self, bytes_max: int) -> Sequence[bytes | memoryview]:
        """Return the next bytes: about `bytes_max`, at least one while any are left, none after all `size` bytes were pulled.

        A piece that cannot be divided (a converted chunk) may be larger. The views stay valid until they are sent.
        """

    def cold(self) -> Callable[[], None] | None:
        """Return a blocking function to run in a thread before the next pull, if its bytes are not in the page cache, or None."""
        return None

    def close(self) -> None:  # noqa: B027  (most parts hold nothing)
        """Release what the part holds, after everything was sent or the connection died. May be called again."""


Part: TypeAlias = bytes | bytearray | memoryview | SendPart


def parts_size(parts: Part | Sequence[Part]) -> int:
    """Return the bytes of a part, or of all parts of a list together.

    It compares exact types, most common first, because the isinstance of an abstract class costs as much as all the rest.
    """
    kind = type(parts)
    if kind is memoryview:
        return parts.nbytes  # type: ignore[union-attr]
    if kind is bytes or kind is bytearray:
        return len(parts)  # type: ignore[arg-type]
    if kind is list or kind is tuple:
        return sum(map(parts_size, parts))  # type: ignore[arg-type]
    return parts.size  # type: ignore[union-attr]


def parts_bytes(parts: Sequence[Part]) -> bytes:
    """Return the bytes of all parts, pulling the late ones to their end: for clients, tests and messages known to be small."""
    pieces: list[bytes | bytearray | memoryview] = []
    for part in parts:
        if isinstance(part, SendPart):
            while pulled := part.pull(1 << 20):
                pieces.extend(pulled)
        else:
            pieces.append(part)
    return b"".join(pieces)
