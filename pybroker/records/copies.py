"""Copies of large data in pieces, between which a thread lets go of the interpreter: one copy would hold it throughout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

PIECE_BYTES: Final = 1 << 18
AT_ONCE_BYTES: Final = 1 << 20
"""Up to this size, one copy takes about a tenth of a millisecond."""


def extend(out: bytearray, data: bytes | bytearray | memoryview) -> None:
    """Append `data` to `out`."""
    if len(data) <= AT_ONCE_BYTES:
        out += data
        return
    view = memoryview(data)
    for start in range(0, len(view), PIECE_BYTES):
        out += view[start : start + PIECE_BYTES]


def joined(parts: Sequence[bytes | memoryview]) -> bytes | memoryview:
    """Return the bytes of all parts; the only part itself, if there is one."""
    if len(parts) == 1:
        return parts[0]
    if sum(map(len, parts)) <= AT_ONCE_BYTES or all(type(part) is bytes for part in parts):
        return b"".join(parts)  # lets go of the interpreter if all parts are bytes, which cannot change
    out = bytearray()
    for part in parts:
        extend(out, part)
    return memoryview(out)
