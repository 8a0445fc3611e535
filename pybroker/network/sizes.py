"""Reads the sizes of requests; `_sizes.pxd` does the same for native parts."""

from __future__ import annotations

import struct
from typing import Final

PREFIX: Final = struct.Struct(">i")
"""A request on the wire begins with its size."""
PREFIX_BYTES: Final = PREFIX.size
assert PREFIX_BYTES == 4

_unpack: Final = PREFIX.unpack_from


def size_at(buffer: memoryview, position: int) -> int:
    """Return the size that stands at a position; it may be negative. Raises struct.error, or IndexError if it is native."""
    size: int
    (size,) = _unpack(buffer, position)
    return size
