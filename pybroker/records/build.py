"""Builds batches of magic 2 and message sets of magic 0 and 1 from records: for coordinators, recompression and tests.

The result is what Kafka's `MemoryRecordsBuilder` builds from the same records, byte for byte if there is no codec.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from crc32c import crc32c

from pybroker.model import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.records import kernels
from pybroker.records.batch import (
    ATTRIBUTES_AT,
    CONTROL_BIT,
    CRC_AT,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    Record,
    TimestampType,
)
from pybroker.records.compression import CompressionType, compress
from pybroker.records.copies import extend
from pybroker.records.varint import append_varint

_CRC: Final = struct.Struct(">I")
_MESSAGE_0: Final = struct.Struct(">qiIbb")  # offset, size, crc, magic, attributes
_MESSAGE_1: Final = struct.Struct(">qiIbbq")  # and the timestamp
_SIZE: Final = struct.Struct(">i")
_MESSAGE_CRC_AT: Final = LOG_OVERHEAD
_MESSAGE_MAGIC_AT: Final = LOG_OVERHEAD + 4


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: Offset | None = None,
    last_offset: Offset | None = None,
    compression: CompressionType = CompressionType.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time_ms: int = NO_TIMESTAMP,
    producer_id: ProducerId = NO_PRODUCER_ID,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
) -> bytearray:
    """Build one batch with `records`, which keep their offsets.

    `base_offset` and `last_offset` default to those of the records. A batch without records, which compaction has
    emptied, needs both offsets.
    """
    records = list(records)
    base_offset = records[0].offset if base_offset is None else base_offset
    last_offset = records[-1].offset if last_offset is None else last_offset
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    max_timestamp = log_append_time_ms if timestamp_type else max((r.timestamp for r in records), default=NO_TIMESTAMP)
    section = build_record_section(records, base_offset=base_offset, base_timestamp=base_timestamp)
    return assemble_batch(
        section if not compression else compress(compression, section, level=level),
        base_offset=base_offset,
        last_offset_delta=last_offset - base_offset,
        attributes=compression
        | (LOG_APPEND_TIME_BIT if timestamp_type else 0)
        | (TRANSACTIONAL_BIT if is_transactional else 0)
        | (CONTROL_BIT if is_control else 0),
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
        leader_epoch=leader_epoch,
    )


def assemble_batch(
    payload: bytes | bytearray | memoryview,
    *,
    base_offset: Offset,
    last_offset_delta: int,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
    producer_id: ProducerId = NO_PRODUCER_ID,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
) -> bytearray:
    """Put a header with its checksum before a record section that is already in the codec of `attributes`. The batch is
    the caller's.
    """
    batch = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        HEADER_SIZE + len(payload) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    extend(batch, payload)
    _CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return batch


def build_record_section(records: Iterable[Record], *, base_offset: Offset, base_timestamp: int) -> bytearray:
    """Build the records of a batch as they follow its header, uncompressed."""
    section = bytearray()
    body = bytearray()
    for record in records:
        body.clear()
        body.append(0)  # the attributes, of which none is defined
        append_varint(body, record.timestamp - base_timestamp)
        append_varint(body, record.offset - base_offset)
        _append_bytes(body, record.key)
        _append_bytes(body, record.value)
        append_varint(body, len(record.headers))
        for key, value in record.headers:
            _append_bytes(body, key.encode(errors="surrogateescape"))
            _append_bytes(body, value)
        append_varint(section, len(body))
        section += body
    return section


def build_message_set(
    records: Iterable[Record],
    *,
    magic: int,
    compression: CompressionType = CompressionType.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time_ms: int = NO_TIMESTAMP,
    wrapper_offset: Offset | None = None,
) -> bytes:
    """Build messages of magic 0 or 1; with a codec they are inside one wrapper message. Record headers are dropped.

    Offsets inside a magic 1 wrapper are relative to the first message's; inside a magic 0 wrapper they are absolute.
    The wrapper has the last message's offset, or `wrapper_offset` (clients that leave the offsets to the broker send
    0).
    """
    records = list(records)
    if timestamp_type:
        records = [record._replace(timestamp=log_append_time_ms) for record in records]
    type_bit = LOG_APPEND_TIME_BIT if timestamp_type and magic else 0
    relative_to = records[0].offset if compression and magic else 0
    messages = b"".join(
        build_message(r.offset - relative_to, timestamp=r.timestamp, key=r.key, value=r.value, magic=magic, attributes=type_bit)
        for r in records
    )
    if not compression:
        return messages
    return build_message(
        records[-1].offset if wrapper_offset is None else wrapper_offset,
        timestamp=max(record.timestamp for record in records),
        key=None,
        value=compress(compression, messages, level=level, magic=magic),
        magic=magic,
        attributes=compression | type_bit,
    )


def build_message(
    offset: Offset, *, timestamp: int, key: bytes | None, value: bytes | memoryview | None, magic: int, attributes: int = 0
) -> bytes:
    """Build one message of magic 0, which has no timestamp, or 1, with its offset and size. A wrapper is a message like
    any other.
    """
    head = _MESSAGE_1 if magic else _MESSAGE_0
    size = head.size - LOG_OVERHEAD + 2 * _SIZE.size + len(key or b"") + len(value or b"")
    message = bytearray(head.size)
    if magic:
        _MESSAGE_1.pack_into(message, 0, offset, size, 0, magic, attributes, timestamp)
    else:
        _MESSAGE_0.pack_into(message, 0, offset, size, 0, magic, attributes)
    for field in (key, value):
        message += _SIZE.pack(-1 if field is None else len(field))
        message += field or b""
    _CRC.pack_into(message, _MESSAGE_CRC_AT, kernels.crc32(memoryview(message)[_MESSAGE_MAGIC_AT:]))
    return bytes(message)


def _append_bytes(out: bytearray, field: bytes | None) -> None:
    if field is None:
        append_varint(out, -1)
    else:
        append_varint(out, len(field))
        out += field
