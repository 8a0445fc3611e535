"""Messages of magic 0 and 1: the formats that clients before 0.11 send and fetch.

A message, big-endian; a message set is a sequence of messages, of which the last may be cut:

| at | field      | type   | why                                                   |
|----|------------|--------|-------------------------------------------------------|
| 0  | offset     | int64  | written by the broker, therefore outside the checksum |
| 8  | size       | int32  | of everything after this field                        |
| 12 | crc        | uint32 | CRC-32 (IEEE) of everything after this field          |
| 16 | magic      | int8   | 0 or 1; at the same place as in magic 2               |
| 17 | attributes | int8   | bits 0-2 codec, 3 log append time (magic 1)           |
| 18 | timestamp  | int64  | ms; magic 1 only                                      |
|    | key        | int32+ | size, -1 for null, and the bytes                      |
|    | value      | int32+ | size, -1 for null, and the bytes                      |

Compressed messages are, as one message set, the value of a wrapper message that has the codec in its attributes:

- The wrapper's offset is that of the last message inside, so that a broker finds the end without decompressing.
- In magic 0 the offsets inside are the real ones. In magic 1 they count from 0, so that the broker need not
  recompress to assign offsets; the first real offset is the wrapper's offset minus the last inner offset. Some
  clients send a wrapper offset of 0: then the offsets inside are real.
- If a magic 1 wrapper has log append time, its timestamp holds for all messages inside.

Source: KIP-31, KIP-32; `LegacyRecord`, `AbstractLegacyRecordBatch`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pybroker.records import kernels
from pybroker.records.batch import (
    COMPRESSION_MASK,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    Record,
    TimestampType,
    entry_size,
)
from pybroker.records.compression import DECOMPRESSED_BYTES_MAX, CompressionType, decompress
from pybroker.records.errors import CorruptRecordError, InvalidRecordError

if TYPE_CHECKING:
    from pybroker.model import Offset

HEAD: Final = struct.Struct(">qiIbb")
assert HEAD.size == 18
CHECKED_FROM: Final = 16
_TIMESTAMP: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")


class MessageView:
    """One message, plain or wrapper, over a borrowed buffer. `size` is the size of the whole message; the rest are its
    fields.
    """

    __slots__ = ("attributes", "buffer", "crc", "magic", "offset", "position", "size", "timestamp")

    offset: Offset
    size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int

    def __init__(self, buffer: memoryview, position: int = 0) -> None:
        """Decode the head of the message at `position`, all of which must be there. Raises InvalidRecordError."""
        self.buffer = buffer
        self.position = position
        self.offset, size, self.crc, self.magic, self.attributes = HEAD.unpack_from(buffer, position)
        self.size = size + LOG_OVERHEAD
        self.timestamp = NO_TIMESTAMP
        if self.magic:
            if self.size < HEAD.size + _TIMESTAMP.size:
                raise InvalidRecordError("a message is smaller than its header")
            (self.timestamp,) = _TIMESTAMP.unpack_from(buffer, position + HEAD.size)

    @property
    def compression(self) -> CompressionType:
        """The codec. Raises InvalidRecordError for an id that no codec has, that of zstd included, which is newer than
        these messages.
        """
        codec = self.attributes & COMPRESSION_MASK
        if codec > CompressionType.LZ4:
            raise InvalidRecordError(f"no codec for messages of magic {self.magic} has the id {codec}")
        return CompressionType(codec)

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether the producer or the broker set the timestamp; magic 0 has no timestamp, and counts as the producer's."""
        return TimestampType(bool(self.magic and self.attributes & LOG_APPEND_TIME_BIT))

    @property
    def data(self) -> memoryview:
        """The whole message, borrowed from the buffer."""
        return self.buffer[self.position : self.position + self.size]

    def ensure_valid(self) -> None:
        """Raise CorruptRecordError if the checksum is wrong."""
        computed = kernels.crc32(self.data[CHECKED_FROM:])
        if self.crc != computed:
            raise CorruptRecordError(f"the message at offset {self.offset} has the checksum {self.crc:#x}, not {computed:#x}")

    def key_and_value(self) -> tuple[memoryview | None, memoryview | None]:
        """Return key and value, borrowed from the buffer. Raises InvalidRecordError if they do not fill the message."""
        position = self.position + HEAD.size + (_TIMESTAMP.size if self.magic else 0)
        end = self.position + self.size
        key, position = self._field(position, end)
        value, position = self._field(position, end)
        if position != end:
            raise InvalidRecordError(f"a message has {end - position} bytes after its value")
        return key, value

    def inner_messages(self, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes | memoryview:
        """Return the message set inside a wrapper, uncompressed.

        Raises:
            CorruptRecordError: the compressed data is damaged, or there is none.
        """
        return decompress(self.compression, self.wrapped(), bytes_max=bytes_max, magic=self.magic)

    def wrapped(self) -> memoryview:
        """Return the compressed message set inside a wrapper, borrowed. Raises InvalidRecordError if there is none."""
        value = self.key_and_value()[1]
        if value is None:
            raise InvalidRecordError("a compressed message has no value")
        return value

    def _field(self, position: int, end: int) -> tuple[memoryview | None, int]:
        if end - position < _INT32.size:
            raise InvalidRecordError("a message ends before its fields")
        (size,) = _INT32.unpack_from(self.buffer, position)
        position += _INT32.size
        if size > end - position:
            raise InvalidRecordError(f"a field claims {size} bytes, but the message has {end - position} left")
        if size < 0:
            return None, position
        return self.buffer[position : position + size], position + size


def messages(buffer: bytes | bytearray | memoryview) -> Iterator[MessageView]:
    """Yield the whole messages of a message set, with wrappers unopened; a partial message at the end is left out.

    Checksums are not checked. Raises CorruptRecordError for a size that is impossible or a magic other than 0 and 1,
    2 included.
    """
    view = memoryview(buffer)
    position = 0
    while (size := entry_size(view, position)) is not None:
        if view[position + CHECKED_FROM] > 1:
            raise CorruptRecordError("a batch of magic 2 is among messages of magic 0 and 1")
        yield MessageView(view, position)
        position += size


def records(buffer: bytes | bytearray | memoryview, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Yield the records of a message set, also those inside wrappers, with real offsets and timestamps. For rare paths
    and tests.

    Raises CorruptRecordError for a wrong checksum, damaged compressed data, or a wrapper that contradicts its inside.
    """
    for message in messages(buffer):
        message.ensure_valid()
        yield from records_of(message, bytes_max=bytes_max)


def records_of(message: MessageView, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Yield the record of a message whose checksum is known, or those inside of a wrapper. Raises as `records`."""
    if not message.compression:
        yield _record(message, message.offset, message.timestamp)
        return
    inner, last = message.inner_messages(bytes_max=bytes_max), None
    for one in messages(inner):
        last = one.offset
    if last is None:
        raise InvalidRecordError("a compressed message holds no messages")
    shift = 0
    if message.magic and message.offset:
        shift = message.offset - last
        if shift < 0:
            raise InvalidRecordError(f"a wrapper has the offset {message.offset}, but its last message has {last}")
    for one in messages(inner):
        one.ensure_valid()
        if one.compression:
            raise InvalidRecordError("a compressed message is inside a compressed message")
        timestamp = message.timestamp if one.magic and message.timestamp_type else one.timestamp
        yield _record(one, one.offset + shift, timestamp)


def _record(message: MessageView, offset: Offset, timestamp: int) -> Record:
    key, value = message.key_and_value()
    return Record(offset, timestamp, None if key is None else bytes(key), None if value is None else bytes(value))
