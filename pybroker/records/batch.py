"""Record batches of magic 2: the format on disk, which every client since 0.11 also sends and fetches.

A batch, big-endian:

| at | field                  | type   | why                                                                                    |
|----|------------------------|--------|----------------------------------------------------------------------------------------|
| 0  | base offset            | int64  | written by the broker, therefore outside the checksum                                  |
| 8  | batch length           | int32  | of everything after this field; at the same place as in magic 0 and 1                  |
| 12 | partition leader epoch | int32  | written by the broker, therefore outside the checksum                                  |
| 16 | magic                  | int8   | 2; at the same place as in magic 0 and 1                                               |
| 17 | crc                    | uint32 | CRC-32C of everything from the attributes to the end                                   |
| 21 | attributes             | int16  | bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon        |
| 23 | last offset delta      | int32  | compaction removes records but keeps the range, so this is not always count - 1        |
| 27 | base timestamp         | int64  | ms; with bit 6 the time from which tombstones may be removed; deltas count from it     |
| 35 | max timestamp          | int64  | ms; with bit 3 the time of the append, which then holds for every record               |
| 43 | producer id            | int64  | -1 without idempotence                                                                 |
| 51 | producer epoch         | int16  | -1 without idempotence                                                                 |
| 53 | base sequence          | int32  | -1 without idempotence; after 2**31 - 1 comes 0                                        |
| 57 | record count           | int32  | 0 in a batch that compaction emptied                                                   |
| 61 | records                |        | compressed as one block if there is a codec                                            |

A record, all numbers zigzag varints: size of what follows, int8 attributes (unused), timestamp delta (64 bits), offset delta,
key size (-1 is null) and key, value size and value, header count, then per header key size, key (never null), value size,
value.

Source: KIP-98, KIP-32; `DefaultRecordBatch`, `DefaultRecord`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from crc32c import crc32c

from pybroker.model import NO_PRODUCER_ID, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.records.compression import DECOMPRESSED_BYTES_MAX, CompressionType, decompress
from pybroker.records.errors import CorruptRecordError, InvalidRecordError
from pybroker.records.varint import read_varint, read_varlong

MAGIC: Final = 2
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
assert HEADER.size == HEADER_SIZE

OFFSET_AND_SIZE: Final = struct.Struct(">qi")
"""The beginning of a batch or message of every magic; that size does not count these bytes."""
LOG_OVERHEAD: Final = 12
assert OFFSET_AND_SIZE.size == LOG_OVERHEAD
SMALLEST_SIZE: Final = 14
"""The least value of the size field: the header of a magic 0 message."""
SIZE_TO_MAGIC: Final = 17

BASE_OFFSET_AT: Final = 0
BATCH_LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
LAST_OFFSET_DELTA_AT: Final = 23
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_SEQUENCE: Final = -1
SEQUENCE_MAX: Final = 0x7FFF_FFFF

_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_UINT32: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")


class TimestampType(IntEnum):
    """Whether the producer or the broker set the timestamps of a batch: bit 3 of its attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


# Indexing a tuple is several times faster than a call of the enum.
_CODECS: Final = tuple(CompressionType)
_TIMESTAMP_TYPES: Final = tuple(TimestampType)


class Record(NamedTuple):
    """One record with its offset and timestamp (ms) resolved. The bytes are owned."""

    offset: Offset
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class BatchView:
    """The header of one magic 2 batch, decoded once, over a borrowed buffer that also holds the batch's records.

    `position` is where the batch starts in `buffer`. `batch_length` is the batch's whole size in bytes: unlike the
    header's own field it includes the 12 bytes of offset and size. The other attributes are the header's fields.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "buffer",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    base_offset: Offset
    partition_leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    record_count: int
    batch_length: int

    def __init__(self, buffer: memoryview, position: int = 0) -> None:
        """Decode the header at `position`, of which all 61 bytes must be there; the records may be missing."""
        self.buffer = buffer
        self.position = position
        (
            self.base_offset,
            length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(buffer, position)
        self.batch_length = length + LOG_OVERHEAD

    @property
    def end(self) -> int:
        """The position in the buffer where the next batch starts."""
        return self.position + self.batch_length

    @property
    def last_offset(self) -> Offset:
        """The offset of the last record that the batch had when it was written."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> Offset:
        """The offset of the first record after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> CompressionType:
        """The codec. Raises InvalidRecordError for an id that no codec has."""
        codec = self.attributes & COMPRESSION_MASK
        if codec >= len(_CODECS):
            raise InvalidRecordError(f"no codec has the id {codec}")
        return _CODECS[codec]

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether the producer or the broker set the timestamps."""
        return _TIMESTAMP_TYPES[self.attributes >> 3 & 1]

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction, or end one."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the records are the broker's own."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which the batch's tombstones and markers may be removed; None if the cleaner has not seen the
        batch yet.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; -1 without idempotence."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def data(self) -> memoryview:
        """The whole batch, borrowed from the buffer."""
        return self.buffer[self.position : self.position + self.batch_length]

    @property
    def payload(self) -> memoryview:
        """The bytes after the header, compressed or not, borrowed from the buffer."""
        return self.buffer[self.position + HEADER_SIZE : self.position + self.batch_length]

    def computed_crc(self) -> int:
        """Return the checksum that the header should have. Reads every byte of the batch."""
        return crc32c(self.buffer[self.position + ATTRIBUTES_AT : self.position + self.batch_length])

    @property
    def is_valid(self) -> bool:
        """Return whether the checksum is right. Reads every byte of the batch."""
        return self.crc == self.computed_crc()

    def ensure_valid(self) -> None:
        """Raise CorruptRecordError if the checksum is wrong."""
        computed = crc32c(self.buffer[self.position + ATTRIBUTES_AT : self.position + self.batch_length])
        if self.crc != computed:
            raise CorruptRecordError(f"the batch at offset {self.base_offset} has the checksum {self.crc:#x}, not {computed:#x}")

    def record_section(self, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes | memoryview:
        """Return the uncompressed records: borrowed from the buffer if there is no codec, otherwise owned.

        Raises:
            CorruptRecordError: the compressed data is damaged, or expands to more than `bytes_max`.
        """
        return decompress(self.compression, self.payload, bytes_max=bytes_max)

    def records(self, section: bytes | memoryview | None = None, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
        """Yield the records in order, from `section` if the caller has them uncompressed. This is for rare paths and
        tests: a record takes 1 us or more.

        Raises:
            CorruptRecordError: as `record_section`.
            InvalidRecordError: the records are not what the header promises. Records before the fault were already
            yielded.
        """
        section = self.record_section(bytes_max=bytes_max) if section is None else section
        override = self.max_timestamp if self.attributes & LOG_APPEND_TIME_BIT else None
        position = 0
        for _ in range(self.record_count):
            record, position = _read_record(section, position, self.base_offset, self.base_timestamp, override)
            yield record
        if position != len(section):
            raise InvalidRecordError(f"there are {len(section) - position} bytes after the last of {self.record_count} records")

    def __repr__(self) -> str:
        return (
            f"BatchView(offsets=[{self.base_offset}, {self.last_offset}], batch_length={self.batch_length}, "
            f"record_count={self.record_count}, attributes={self.attributes:#x}, leader_epoch={self.partition_leader_epoch}, "
            f"producer_id={self.producer_id}, producer_epoch={self.producer_epoch}, base_sequence={self.base_sequence})"
        )


def claimed_size(buffer: bytes | bytearray | memoryview, position: int = 0) -> int | None:
    """Return the whole size, according to its header, of the batch or message of any magic that starts at `position`.

    Returns None if there are too few bytes to know. Raises CorruptRecordError if the size is impossible or the magic
    is unknown.
    """
    left = len(buffer) - position
    if left < LOG_OVERHEAD:
        return None
    (size,) = _INT32.unpack_from(buffer, position + BATCH_LENGTH_AT)
    if size < SMALLEST_SIZE:
        raise CorruptRecordError(f"a batch claims {size} bytes, which is less than a header")
    if left < SIZE_TO_MAGIC:
        return None
    magic = buffer[position + MAGIC_AT]
    if magic > MAGIC:
        raise CorruptRecordError(f"a batch has the unknown magic {magic}")
    if magic == MAGIC and size < HEADER_SIZE - LOG_OVERHEAD:
        raise CorruptRecordError(f"a batch claims {size} bytes, which is less than a header of magic 2")
    return int(size) + LOG_OVERHEAD


def entry_size(buffer: bytes | bytearray | memoryview, position: int = 0) -> int | None:
    """Return the size as `claimed_size` does, but None if the batch or message is not complete."""
    size = claimed_size(buffer, position)
    return size if size is not None and size <= len(buffer) - position else None


def batches(buffer: bytes | bytearray | memoryview, position: int = 0) -> Iterator[BatchView]:
    """Yield the whole magic 2 batches from `position` on; a partial batch at the end is left out.

    Checksums are not checked. Raises CorruptRecordError for a size that is impossible or a magic other than 2, 0 and
    1 included.
    """
    view = memoryview(buffer)
    while (size := entry_size(view, position)) is not None:
        if view[position + MAGIC_AT] != MAGIC:
            raise CorruptRecordError(f"a message of magic {view[position + MAGIC_AT]} is among batches of magic 2")
        yield BatchView(view, position)
        position += size


def increment_sequence(sequence: int, increment: int) -> int:
    """Return the sequence `increment` records later; after 2**31 - 1 comes 0."""
    return (sequence + increment) & SEQUENCE_MAX


def decrement_sequence(sequence: int, *, by: int) -> int:
    """Return the sequence `by` records earlier."""
    return (sequence - by) & SEQUENCE_MAX


def set_offset_and_epoch(
    batch: memoryview | bytearray, *, base_offset: Offset, leader_epoch: LeaderEpoch, position: int = 0
) -> None:
    """Write the two fields that the broker owns; the checksum does not cover them."""
    _INT64.pack_into(batch, position + BASE_OFFSET_AT, base_offset)
    _INT32.pack_into(batch, position + LEADER_EPOCH_AT, leader_epoch)


def set_max_timestamp(batch: memoryview | bytearray, timestamp_type: TimestampType, max_timestamp: int) -> None:
    """Write timestamp type and max timestamp into `batch`, a single batch, and its new checksum."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)
    attributes = attributes & ~LOG_APPEND_TIME_BIT | (LOG_APPEND_TIME_BIT if timestamp_type else 0)
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes)
    _INT64.pack_into(batch, MAX_TIMESTAMP_AT, max_timestamp)
    _UINT32.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))


def _read_bytes(section: bytes | memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(section, position, end)
    if size < 0:
        return None, position
    if size > end - position:
        raise InvalidRecordError(f"a field claims {size} bytes, but the record has {end - position} left")
    return bytes(section[position : position + size]), position + size


def _read_record(
    section: bytes | memoryview, position: int, base_offset: Offset, base_timestamp: int, timestamp: int | None
) -> tuple[Record, int]:
    size, position = read_varint(section, position, len(section))
    end = position + size
    if size < 1 or end > len(section):
        raise InvalidRecordError(f"a record claims {size} bytes, but the batch has {len(section) - position} left")
    timestamp_delta, position = read_varlong(section, position + 1, end)
    offset_delta, position = read_varint(section, position, end)
    key, position = _read_bytes(section, position, end)
    value, position = _read_bytes(section, position, end)
    count, position = read_varint(section, position, end)
    if not 0 <= count <= end - position:
        raise InvalidRecordError(f"a record claims {count} headers in {end - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        header_key, position = _read_bytes(section, position, end)
        if header_key is None:
            raise InvalidRecordError("a header has no key")
        header_value, position = _read_bytes(section, position, end)
        headers.append((header_key.decode(errors="surrogateescape"), header_value))
    if position != end:
        raise InvalidRecordError(f"a record of {size} bytes is {end - position} bytes longer than its fields")
    resolved = base_timestamp + timestamp_delta if timestamp is None else timestamp
    return Record(base_offset + offset_delta, resolved, key, value, tuple(headers)), end
