"""Records of magic 2 as messages of magic 0 and 1, and back, in Python: the contract, and what runs where the native part was not
built.

A section is the uncompressed records of a magic 2 batch. A message set is the uncompressed messages of a produce request or of a
wrapper. Buffers are borrowed until return. All functions but `down_convert_batches` raise the errors that `record_fault` makes.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from pybroker.records._kernels_python import _INT64_MAX, _parse, _sum, _whole
from pybroker.records.batch import COMPRESSION_MASK, CONTROL_BIT, HEADER_SIZE, MAGIC, MAGIC_AT, BatchView, entry_size
from pybroker.records.errors import CorruptRecordError, RecordFault, record_fault
from pybroker.records.varint import append_varint

if TYPE_CHECKING:
    from pybroker.model import Offset

__all__ = ["down_convert_batches", "down_convert_records", "down_converted_size", "up_convert_messages"]

PLAIN_BYTES_MAX: Final = 256 << 10
"""A larger batch takes long to convert: it is not plain."""

_NOT_PLAIN: Final = COMPRESSION_MASK | CONTROL_BIT
_CHECKED_0: Final = struct.Struct(">bbi")  # the part of the head that the checksum covers
_CHECKED_1: Final = struct.Struct(">bbqi")
_INT32: Final = struct.Struct(">i")
_OFFSET_SIZE_CRC: Final = struct.Struct(">qiIbb")
_INT64: Final = struct.Struct(">q")


def down_convert_batches(
    data: bytes | memoryview, position: int, to_magic: int, first_offset: Offset, room: int
) -> tuple[bytes, int, int]:
    """Convert the plain batches from `position` on, while their messages take no more than `room` bytes together.

    A plain batch is whole, of magic 2, of at most PLAIN_BYTES_MAX, without a codec, not a control batch, and undamaged: its
    checksum and its records are right. Returns the messages, as `down_convert_records` makes them, where the first batch begins
    that was not converted, and the number of messages. Raises nothing: the general way knows what such a batch is.
    """
    view = memoryview(data)
    parts: list[bytes] = []
    count = 0
    while len(view) - position >= HEADER_SIZE and view[position + MAGIC_AT] == MAGIC:
        try:
            size = entry_size(view, position)
            batch = BatchView(view, position)
            if size is None or size > PLAIN_BYTES_MAX or batch.attributes & _NOT_PLAIN:
                break
            if down_converted_size(batch.payload, batch.record_count, batch.base_offset, to_magic, first_offset) > room:
                break
            batch.ensure_valid()
            messages, kept, _, _ = down_convert_records(
                batch.payload,
                batch.record_count,
                batch.base_offset,
                batch.base_timestamp,
                bool(batch.timestamp_type),
                batch.max_timestamp,
                to_magic,
                first_offset,
                False,
            )
        except CorruptRecordError:
            break
        parts.append(messages)
        room -= len(messages)
        count += kept
        position += size
    return b"".join(parts), position, count


def down_converted_size(
    section: bytes | bytearray | memoryview, record_count: int, base_offset: Offset, to_magic: int, first_offset: Offset
) -> int:
    """Return the size in bytes of the messages that `down_convert_records` makes, without making them."""
    section = _whole(section)
    position = size = 0
    overhead = 34 if to_magic else 26
    for _ in range(record_count):
        _, offset_delta, _, key_size, _, value_size, position = _parse(section, position)
        if _sum(base_offset, offset_delta) >= first_offset:
            size += overhead + max(key_size, 0) + max(value_size, 0)
    if position != len(section):
        raise record_fault(RecordFault.BYTES_LEFT)
    return size


def down_convert_records(  # noqa: PLR0917  (a call by position is a third of a call by name)
    section: bytes | bytearray | memoryview,
    record_count: int,
    base_offset: Offset,
    base_timestamp: int,
    is_log_append_time: bool,
    log_append_time: int,
    to_magic: int,
    first_offset: Offset,
    is_relative: bool,
) -> tuple[bytes, int, int, int]:
    """Return uncompressed messages of magic 0 or 1 made from the records at or after `first_offset`; headers are
    dropped.

    With `is_relative` the messages' offsets count from the first message's, as inside a magic 1 wrapper. With
    `is_log_append_time` every timestamp is `log_append_time`. Returns the messages, their number, the last message's
    absolute offset (-1 if there is none), and the greatest timestamp (at least -1).
    """
    section = _whole(section)
    parts: list[bytes] = []
    position = kept = first_kept = 0
    last_kept = max_timestamp = -1
    attributes = 0x08 if is_log_append_time and to_magic else 0
    for _ in range(record_count):
        delta, offset_delta, key_at, key_size, value_at, value_size, position = _parse(section, position)
        offset = _sum(base_offset, offset_delta)
        timestamp = log_append_time if is_log_append_time else _sum(base_timestamp, delta)
        if offset < first_offset:
            continue
        if not kept:
            first_kept = offset
        kept += 1
        last_kept = offset
        max_timestamp = max(max_timestamp, timestamp)
        inner = _sum(offset, -first_kept) if is_relative else offset
        key = section[key_at : key_at + max(key_size, 0)]
        value = section[value_at : value_at + max(value_size, 0)]
        key_size, value_size = max(key_size, -1), max(value_size, -1)
        checked = _CHECKED_1.pack(1, attributes, timestamp, key_size) if to_magic else _CHECKED_0.pack(0, 0, key_size)
        body = b"".join((checked, key, _INT32.pack(value_size), value))
        parts += struct.pack(">qiI", inner, len(body) + 4, zlib.crc32(body)), body
    if position != len(section):
        raise record_fault(RecordFault.BYTES_LEFT)
    return b"".join(parts), kept, last_kept, max_timestamp


def up_convert_messages(  # noqa: PLR0917
    messages: bytes | bytearray | memoryview,
    magic: int,
    is_log_append_time: bool,
    log_append_time: int,
    first_number: int = 0,
    base_timestamp: int = 0,
) -> tuple[bytes, int, int, int, int, int, int]:
    """Return a section with offset deltas 0, 1, 2... made from uncompressed messages of `magic`, which must all be
    sound.

    A partial message at the end is left out. With `is_log_append_time` every timestamp is `log_append_time` (from the
    wrapper). If these messages continue a section, `first_number` is the count, and `base_timestamp` is that, of those before.
    Returns the section, the count of all, the base timestamp, the greatest and the smallest timestamp and the number of
    records without a key, these three as `scan_records` does, and where the last whole message ends.
    """
    messages = _whole(messages)
    out = bytearray()
    position, keyless, count = 0, 0, first_number
    max_timestamp, min_timestamp = -1, _INT64_MAX
    while len(messages) - position >= 12:
        (size,) = _INT32.unpack_from(messages, position + 8)
        if size < 14:
            raise record_fault(RecordFault.SMALL_MESSAGE)
        if size > len(messages) - position - 12:
            break
        timestamp, key, value = _message(messages, position + 12, position + 12 + size, magic)
        if is_log_append_time:
            timestamp = log_append_time
        if not count:
            base_timestamp = timestamp
        body = bytearray(1)
        append_varint(body, _sum(timestamp, -base_timestamp))
        append_varint(body, count)
        for field in (key, value):
            append_varint(body, -1 if field is None else len(field))
            body += field or b""
        body.append(0)
        append_varint(out, len(body))
        out += body
        max_timestamp = max(max_timestamp, timestamp)
        if timestamp != -1:
            min_timestamp = min(min_timestamp, timestamp)
        keyless += key is None
        count += 1
        position += 12 + size
    return bytes(out), count, base_timestamp, max_timestamp, min_timestamp, keyless, position


def _message(messages: bytes, at: int, end: int, magic: int) -> tuple[int, bytes | None, bytes | None]:
    """Return timestamp, key and value of the message whose checksum is at `at`."""
    crc, found_magic, attributes = _OFFSET_SIZE_CRC.unpack_from(messages, at - 12)[2:]
    if not 0 <= found_magic <= 1:
        raise record_fault(RecordFault.WRONG_MAGIC)
    if zlib.crc32(memoryview(messages)[at + 4 : end]) != crc:
        raise record_fault(RecordFault.CHECKSUM)
    if found_magic != magic:
        raise record_fault(RecordFault.WRONG_MAGIC)
    if attributes & 0x07:
        raise record_fault(RecordFault.NESTED)
    position = at + 6
    timestamp = -1
    if magic:
        if end - position < 8:
            raise record_fault(RecordFault.MESSAGE_FIELDS)
        (timestamp,) = _INT64.unpack_from(messages, position)
        position += 8
    key, position = _message_field(messages, position, end)
    value, position = _message_field(messages, position, end)
    if position != end:
        raise record_fault(RecordFault.MESSAGE_FIELDS)
    return timestamp, key, value


def _message_field(messages: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    if end - position < 4:
        raise record_fault(RecordFault.MESSAGE_FIELDS)
    (size,) = _INT32.unpack_from(messages, position)
    position += 4
    if size > end - position:
        raise record_fault(RecordFault.MESSAGE_FIELDS)
    if size < 0:
        return None, position
    return messages[position : position + size], position + size
