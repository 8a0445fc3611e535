"""The pieces of a message on its way out: bytes that exist, and bytes that are made when the socket can take them."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias


class SendPart(abc.ABC):
    """A piece of a response with a known size whose bytes are made late: a slice of a log, or its conversion to an old format.

    Attributes:
        size: exact number of bytes that `pull` yields in all; it never changes after creation.
        makes_bytes: whether `pull` makes new bytes in memory, so that no more may be pulled before these are gone; else it gives
            views of what is there anyway, such as a mapped file.
    """

    __slots__ = ()

    makes_bytes: ClassVar[bool] = False
    size: int

    @abc.abstractmethod
    def pull(self, bytes_max: int) -> Sequence[bytes | memoryview]:
        """The next bytes: about `bytes_max` of them, at least one while any are left, nothing once all `size` bytes are out.

        A piece that cannot be divided (a converted chunk) may be larger. The views stay valid until they are sent.
        """

    def cold(self) -> Callable[[], None] | None:
        """A blocking function to run in a thread before the next pull, when its bytes are not in the page cache; else None."""
        return None

    def close(self) -> None:  # noqa: B027  (most parts hold nothing)
        """Give back what the part holds, when everything was sent or the connection died. May be called again."""


Part: TypeAlias = bytes | bytearray | memoryview | SendPart


def parts_size(parts: Part | Sequence[Part]) -> int:
    """Bytes of a part, or of all parts of a list together.

    It asks for the exact type, most common first, because the isinstance of an abstract class costs as much as all the rest.
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
    """The bytes of all parts, pulling the late ones to their end. For clients and tests, and for messages known to be small."""
    pieces: list[bytes | bytearray | memoryview] = []
    for part in parts:
        if isinstance(part, SendPart):
            while pulled := part.pull(1 << 20):
                pieces.extend(pulled)
        else:
            pieces.append(part)
    return b"".join(pieces)
