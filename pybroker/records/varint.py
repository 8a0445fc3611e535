"""Zigzag varints, as Protocol Buffers have them: small numbers of either sign in few bytes.

Groups of seven bits, lowest first; the top bit of a byte means that more follow. 32 bits take at most 5 bytes, 64 bits 10.

Source: `org.apache.kafka.common.utils.ByteUtils`.
"""

from __future__ import annotations

from typing import Final

from pybroker.records.errors import RecordFault, record_fault

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10
_INT32_MASK: Final = 0xFFFF_FFFF
_INT64_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF


def append_varint(out: bytearray, value: int) -> None:
    """Append `value`, an int32 or int64, to `out`."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def small_varints(count: int) -> tuple[bytes, ...]:
    """Return the numbers below `count`, which is at most 8192, as `append_varint` writes them."""
    one_byte = [bytes((value << 1,)) for value in range(min(count, 64))]
    return (*one_byte, *(bytes((value << 1 & 0x7F | 0x80, value >> 6)) for value in range(64, count)))


def varint(value: int) -> bytes:
    """Return an int32 that is not negative as `append_varint` writes it."""
    if value < _SMALL:
        return _VARINTS[value]
    out = bytearray()
    append_varint(out, value)
    return bytes(out)


def read_varint(buffer: bytes | memoryview, position: int, end: int) -> tuple[int, int]:
    """Read the int32 at `position`. Returns it and the position after it, which is at most `end`. Raises InvalidRecordError."""
    if position < end and (raw := buffer[position]) < 0x80:
        return (raw >> 1) ^ -(raw & 1), position + 1
    raw, position = _read(buffer, position, end, VARINT_BYTES_MAX)
    raw &= _INT32_MASK
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(buffer: bytes | memoryview, position: int, end: int) -> tuple[int, int]:
    """Read the int64 at `position`. Returns it and the position after it, which is at most `end`. Raises InvalidRecordError."""
    if position < end and (raw := buffer[position]) < 0x80:
        return (raw >> 1) ^ -(raw & 1), position + 1
    raw, position = _read(buffer, position, end, VARLONG_BYTES_MAX)
    raw &= _INT64_MASK
    return (raw >> 1) ^ -(raw & 1), position


def _read(buffer: bytes | memoryview, position: int, end: int, bytes_max: int) -> tuple[int, int]:
    raw = shift = 0
    for at in range(position, min(position + bytes_max, end)):
        byte = buffer[at]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, at + 1
        shift += 7
    raise record_fault(RecordFault.CUT_NUMBER if end - position < bytes_max else RecordFault.LONG_NUMBER)


_SMALL: Final = 1024  # most records are smaller, and most batches have fewer of them
_VARINTS: Final = small_varints(_SMALL)
