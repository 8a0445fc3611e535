"""The kernels over raw records in Python: the contract, and what runs where the native part was not built.

A section is the uncompressed records of a magic 2 batch. Buffers are borrowed until return. All functions raise
the errors that `record_fault` makes. The native part releases the GIL only above 256 kB, because a waiting thread would then keep
the GIL for milliseconds.

The functions process the bytes one record at a time, and decode a varint inline if it fits one byte: about 1 us per
record.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, cast

from crc32c import crc32c

from pybroker.records.batch import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    OFFSET_AND_SIZE,
    TRANSACTIONAL_BIT,
    set_offset_and_epoch,
)
from pybroker.records.errors import CorruptRecordError, RecordFault, record_fault
from pybroker.records.varint import VARINT_BYTES_MAX, append_varint, read_varint, read_varlong, varint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pybroker.model import LeaderEpoch, Offset, ProducerEpoch, ProducerId

    Copies = tuple[
        int, Offset, int, Offset, int, list[tuple[Offset, int]], list[tuple[ProducerId, ProducerEpoch, int, Offset, int, int]]
    ]
    LookThrough = Callable[..., tuple[int, int, int, bool, int] | None]

__all__ = [
    "accept_batch",
    "accept_copies",
    "crc32",
    "is_of_transaction",
    "is_only_at_end",
    "note_keys",
    "record_section",
    "retain_records",
    "scan_records",
    "take_records",
]

_INT64_MAX: Final = (1 << 63) - 1
_INT64_MIN: Final = -(1 << 63)
_SECTION_MAX: Final = 0x7FFF_0000
_ATTRIBUTES_AND_TIME: Final = b"\0\0"
_NOT_PLAIN: Final = TRANSACTIONAL_BIT | CONTROL_BIT
_UNUSUAL_BITS: Final = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


def crc32(data: bytes | bytearray | memoryview) -> int:
    """Return the CRC-32 (IEEE) of messages of magic 0 and 1."""
    return zlib.crc32(data)


def _field(section: bytes, position: int, end: int) -> tuple[int, int]:
    size, position = read_varint(section, position, end)
    if size > end - position:
        raise record_fault(RecordFault.LONG_FIELD)
    return size, position


def _skip_headers(section: bytes, position: int, end: int, count: int) -> int:
    if not 0 <= count <= end - position:
        raise record_fault(RecordFault.HEADER_COUNT)
    for _ in range(count):
        size, position = _field(section, position, end)
        if size < 0:
            raise record_fault(RecordFault.NULL_HEADER_KEY)
        size, position = _field(section, position + size, end)
        position += max(size, 0)
    return position


def _parse(section: bytes, position: int) -> tuple[int, int, int, int, int, int, int]:
    """Return timestamp delta, offset delta, key position and size, value position and size, and the position of the next
    record.
    """
    size, position = read_varint(section, position, len(section))
    if not 1 <= size <= len(section) - position:
        raise record_fault(RecordFault.RECORD_SIZE)
    end = position + size
    timestamp_delta, position = read_varlong(section, position + 1, end)
    offset_delta, position = read_varint(section, position, end)
    key_size, key_at = _field(section, position, end)
    value_size, value_at = _field(section, key_at + max(key_size, 0), end)
    headers, position = read_varint(section, value_at + max(value_size, 0), end)
    if headers or position != end:
        position = _skip_headers(section, position, end, headers)
        if position != end:
            raise record_fault(RecordFault.LONG_RECORD)
    return timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, end


def _sum(base: int, delta: int) -> int:
    if not _INT64_MIN <= base + delta <= _INT64_MAX:
        raise record_fault(RecordFault.OUT_OF_RANGE)
    return base + delta


def _whole(section: bytes | bytearray | memoryview) -> bytes:
    if len(section) > _SECTION_MAX:
        raise record_fault(RecordFault.TOO_LARGE)
    return bytes(section)


def scan_records(section: bytes | bytearray | memoryview, record_count: int, base_timestamp: int) -> tuple[int, int, int, bool]:
    """Check every record of a section.

    Returns the greatest timestamp, at least -1; the smallest timestamp other than -1 (no timestamp), 2**63 - 1 if
    there is none; the number of records without a key; and whether the offset deltas are 0, 1, 2...
    """
    section = _whole(section)
    position = keyless = 0
    max_timestamp, min_timestamp, is_sequential = -1, _INT64_MAX, True
    for index in range(record_count):
        delta, offset_delta, _, key_size, _, _, position = _parse(section, position)
        timestamp = _sum(base_timestamp, delta)
        max_timestamp = max(max_timestamp, timestamp)
        if timestamp != -1:
            min_timestamp = min(min_timestamp, timestamp)
        keyless += key_size < 0
        is_sequential &= offset_delta == index
    if position != len(section):
        raise record_fault(RecordFault.BYTES_LEFT)
    return max_timestamp, min_timestamp, keyless, is_sequential


def accept_batch(  # noqa: PLR0917
    records: bytes | bytearray | memoryview,
    first_offset: Offset,
    leader_epoch: LeaderEpoch,
    now_ms: int,
    bytes_max: int,
    before_max_ms: int,
    after_max_ms: int,
    is_compacted: bool,
    kept_codecs: int = 1,
    look_through: LookThrough | None = None,
) -> tuple[int, int, ProducerId, ProducerEpoch, int, int] | None:
    """Validate an ordinary producer batch and write its base offset and leader epoch into it in place.

    An ordinary batch is a single batch of magic 2 at offset 0, in a writable buffer, in a codec whose bit of `kept_codecs` is set
    (`look_through`, of `quick_look.py`, then looks at its records). Its checksum, sizes, counts, offsets and max timestamp are
    right; it has no transaction and no control records; all its timestamps are from `now_ms - before_max_ms` to
    `now_ms + after_max_ms`; and its records have keys if the topic `is_compacted`. Returns last offset delta, max timestamp,
    producer id, producer epoch, base sequence, and what compressed records were inflated to, else 0 bytes.
    Returns None for any other batch, valid or not, and then changes nothing.
    """
    view = memoryview(records)
    if view.readonly or not HEADER_SIZE <= len(view) <= bytes_max:
        return None
    (
        base_offset,
        length,
        _,
        magic,
        crc,
        attributes,
        last_delta,
        base_timestamp,
        wanted_max,
        producer_id,
        epoch,
        sequence,
        count,
    ) = HEADER.unpack_from(view)
    if (
        base_offset
        or length + LOG_OVERHEAD != len(view)
        or magic != MAGIC
        or attributes & _UNUSUAL_BITS
        or not kept_codecs >> (attributes & COMPRESSION_MASK) & 1
        or count <= 0
        or last_delta != count - 1
        or (sequence < 0 <= producer_id)
        or crc != crc32c(view[ATTRIBUTES_AT:])
    ):
        return None
    found = _found(attributes & COMPRESSION_MASK, view[HEADER_SIZE:], count, base_timestamp, look_through)
    if found is None:
        return None
    max_timestamp, min_timestamp, keyless, is_sequential, inflated_bytes = found
    is_in_time = now_ms - before_max_ms <= min_timestamp and max_timestamp <= now_ms + after_max_ms
    if not is_sequential or max_timestamp != wanted_max or (is_compacted and keyless) or not is_in_time:
        return None
    set_offset_and_epoch(view, base_offset=first_offset, leader_epoch=leader_epoch)
    return last_delta, max_timestamp, producer_id, epoch, sequence, inflated_bytes


def _found(
    codec: int, payload: memoryview, count: int, base_timestamp: int, look_through: LookThrough | None
) -> tuple[int, int, int, bool, int] | None:
    """Return what the records have in common, and what they were inflated to; None if they are not good."""
    if codec:
        return look_through and look_through(codec, payload, record_count=count, base_timestamp=base_timestamp)
    try:
        return *scan_records(payload, count, base_timestamp), 0
    except CorruptRecordError:
        return None


def accept_copies(records: bytes | bytearray | memoryview, offset_min: Offset, leader_epoch: LeaderEpoch) -> Copies | None:
    """Check ordinary batches that a leader has sent for a follower's log that ends at `offset_min`.

    Ordinary batches have magic 2, right checksums, and `leader_epoch`. They have no transaction and no control records, and
    their offsets grow from `offset_min` on. A partial batch at the end is left out, and no record is looked at. Returns None for
    any others, valid or not, and if there are none.

    Returns the size of all in bytes; the last offset; the largest max timestamp, and the last offset of the first batch that
    has it; the number of records; base offset and size in bytes of each batch; and of each batch that has a producer id: that,
    producer epoch, base sequence, last offset, last offset delta, and max timestamp.
    """
    view = memoryview(records)
    position, max_timestamp, record_count, last_offset = 0, 0, 0, offset_min - 1
    offset_of_max_timestamp = last_offset
    places: list[tuple[Offset, int]] = []
    produced: list[tuple[ProducerId, ProducerEpoch, int, Offset, int, int]] = []
    while (left := len(view) - position) >= LOG_OVERHEAD:
        size = OFFSET_AND_SIZE.unpack_from(view, position)[1] + LOG_OVERHEAD
        if size < HEADER_SIZE or (left > MAGIC_AT and view[position + MAGIC_AT] != MAGIC):
            return None
        if size > left:
            break
        fields = HEADER.unpack_from(view, position)
        base_offset, _, epoch, _, crc, attributes, last_delta, _, timestamp, producer_id, producer_epoch, sequence, count = fields
        if (
            epoch != leader_epoch
            or attributes & _NOT_PLAIN
            or last_delta < 0
            or not last_offset < base_offset <= _INT64_MAX - last_delta
            or sequence < 0 <= producer_id
            or crc != crc32c(view[position + ATTRIBUTES_AT : position + size])
        ):
            return None
        last_offset = base_offset + last_delta
        if not places or timestamp > max_timestamp:
            max_timestamp, offset_of_max_timestamp = timestamp, last_offset
        record_count += count
        places.append((base_offset, size))
        if producer_id >= 0:
            produced.append((producer_id, producer_epoch, sequence, last_offset, last_delta, timestamp))
        position += size
    if not places:
        return None
    return position, last_offset, max_timestamp, offset_of_max_timestamp, record_count, places, produced


def is_of_transaction(records: bytes | bytearray | memoryview) -> bool:
    """Return whether `records` begin with a whole header of magic 2 of a transaction, and have more bytes than that."""
    return (
        len(records) > HEADER_SIZE
        and records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT != 0  # the high byte is unused
        and records[MAGIC_AT] == MAGIC
    )


def is_only_at_end(data: bytes | bytearray | memoryview, size: int) -> bool:
    """Return whether the last `size` bytes (1 to 64) of `data` stand nowhere else in it; False if it has no more than those."""
    text = bytes(data)
    return len(text) > size and text.find(text[-size:]) == len(text) - size


def record_section(ends: Sequence[bytes], first: int) -> bytes:
    """Return the records of a batch, or some of them, of which the first has the number `first`, from what follows the offset in
    each. Their timestamp is that of the batch.
    """
    section: list[bytes] = []
    for number, end in enumerate(ends, first):
        start = _ATTRIBUTES_AND_TIME + varint(number)
        section += (varint(len(start) + len(end)), start, end)
    return b"".join(section)


def take_records(
    section: bytes | bytearray | memoryview, position: int, record_count: int, bytes_min: int, may_be_cut: bool = False
) -> tuple[int, int]:
    """Return how many records from `position` on are a piece, and where the piece ends: `record_count` of them, or as many
    as have `bytes_min` bytes together, or all that are left. With `may_be_cut` the last one may be cut, and is left out. Only
    their sizes are looked at.
    """
    if len(section) > _SECTION_MAX:
        raise record_fault(RecordFault.TOO_LARGE)
    if not 0 <= position <= len(section) or bytes_min < 0:
        raise record_fault(RecordFault.RECORD_SIZE)
    section = cast("bytes", section)  # a view has what is needed of bytes here
    enough, count = min(position + bytes_min, len(section)), 0
    while count < record_count and position < enough:
        try:
            size, start = read_varint(section, position, len(section))
        except CorruptRecordError:
            if may_be_cut and len(section) - position < VARINT_BYTES_MAX:
                break
            raise
        if not 1 <= size <= len(section) - start:
            if may_be_cut and size > 0:
                break
            raise record_fault(RecordFault.RECORD_SIZE)
        position = start + size
        count += 1
    return count, position


def note_keys(
    section: bytes | bytearray | memoryview, record_count: int, base_offset: Offset, offsets: dict[bytes, Offset]
) -> tuple[int, int]:
    """Write the offset of each record that has a key into `offsets`, under its key.

    Returns the number of keys that are new to `offsets`, and their total bytes. Of a damaged section, the keys before
    the damage are written.
    """
    section = _whole(section)
    position = key_bytes = 0
    before = len(offsets)
    for _ in range(record_count):
        _, offset_delta, key_at, key_size, _, _, position = _parse(section, position)
        if key_size >= 0:
            key = section[key_at : key_at + key_size]
            if key not in offsets:
                key_bytes += key_size
            offsets[key] = base_offset + offset_delta
    if position != len(section):
        raise record_fault(RecordFault.BYTES_LEFT)
    return len(offsets) - before, key_bytes


def retain_records(  # noqa: PLR0917
    section: bytes | bytearray | memoryview,
    record_count: int,
    base_offset: Offset,
    base_timestamp: int,
    new_base_timestamp: int,
    offsets: dict[bytes, Offset],
    latest_offset: Offset,
    keeps_tombstones: bool,
) -> tuple[bytes, int, int, int]:
    """Return the section without the records that compaction removes, for a batch with `new_base_timestamp`.

    Of the records up to `latest_offset`, compaction removes those without a key, those whose key has a later offset
    in `offsets`, and unless `keeps_tombstones` those without a value. Returns the section, its number of records, the
    greatest timestamp among them (at least -1), and the number of records without a value.
    """
    section = _whole(section)
    kept = bytearray()
    position = count = tombstones = 0
    max_timestamp = -1
    if not 0 <= record_count <= len(section):
        raise record_fault(RecordFault.RECORD_SIZE)
    for _ in range(record_count):
        start = position
        delta, offset_delta, key_at, key_size, _, value_size, position = _parse(section, start)
        timestamp = _sum(base_timestamp, delta)
        moved = _sum(timestamp, -new_base_timestamp)
        offset = base_offset + offset_delta
        if offset <= latest_offset:
            if key_size < 0 or (value_size < 0 and not keeps_tombstones):
                continue
            if offsets.get(section[key_at : key_at + key_size], offset) > offset:
                continue
        if new_base_timestamp == base_timestamp:
            kept += section[start:position]
        else:
            _put_moved(kept, section[start:position], moved)
        count += 1
        tombstones += value_size < 0
        max_timestamp = max(max_timestamp, timestamp)
    if position != len(section):
        raise record_fault(RecordFault.BYTES_LEFT)
    return bytes(kept), count, max_timestamp, tombstones


def _put_moved(out: bytearray, record: bytes, timestamp_delta: int) -> None:
    """Append a record with another timestamp delta."""
    _, at = read_varint(record, 0, len(record))
    _, after = read_varlong(record, at + 1, len(record))
    body = bytearray(record[at : at + 1])
    append_varint(body, timestamp_delta)
    append_varint(out, len(body) + len(record) - after)
    out += body
    out += record[after:]
