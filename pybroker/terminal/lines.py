"""Lines of a file or a pipe, as soon as they are there: what one read returns is one round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

READ_BYTES: Final = 1 << 20


def rounds(stream: BinaryIO, delimiter: bytes) -> Iterator[list[bytes]]:
    """Yield the lines that each read completes, without their ends; and at last what has no end."""
    read = getattr(stream, "read1", stream.read)  # what is there, without waiting for all of it
    rest = b""
    while data := read(READ_BYTES):
        *lines, rest = (rest + data).split(delimiter)
        yield lines
    if rest:
        yield [rest]
