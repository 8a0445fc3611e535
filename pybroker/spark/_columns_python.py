"""Decodes records into the buffers of Arrow columns, in Python: the contract, and what runs where the native part was
not built.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from typing import TYPE_CHECKING, Final

from pybroker.records._conversions_python import _message_field
from pybroker.records._kernels_python import _INT64_MAX, _INT64_MIN, _field, _sum, _whole
from pybroker.records.errors import RecordFault, record_fault
from pybroker.records.varint import read_varint, read_varlong

if TYPE_CHECKING:
    from pybroker.model import Offset

__all__ = ["ColumnBuilder"]

OFFSET: Final = 1
TIMESTAMP: Final = 2
KEY: Final = 4
VALUE: Final = 8
HEADERS: Final = 16

_INT32_MAX: Final = (1 << 31) - 1
_HEAD: Final = struct.Struct(">qiIbb")  # offset, size, crc, magic, attributes
_INT64: Final = struct.Struct(">q")

_Buffer = bytes | bytearray | memoryview
_Binary = tuple[_Buffer | None, _Buffer, _Buffer, int]


def _bytes_of(numbers: array[int]) -> memoryview:
    return memoryview(numbers).cast("B")


class _BinaryColumn:
    """A column of byte strings: Arrow's validity bitmap, 32-bit ends and data."""

    __slots__ = ("count", "data", "ends", "nulls", "validity")

    def __init__(self) -> None:
        self.validity = bytearray()
        self.ends = array("i", (0,))
        self.data = bytearray()
        self.count = self.nulls = 0

    def put(self, value: bytes | None) -> None:
        if not self.count & 7:
            self.validity.append(0)
        if value is None:
            self.nulls += 1
        else:
            if len(self.data) + len(value) > _INT32_MAX:
                raise record_fault(RecordFault.TOO_LARGE)
            self.data += value
            self.validity[-1] |= 1 << (self.count & 7)
        self.ends.append(len(self.data))
        self.count += 1

    def taken(self) -> _Binary:
        return self.validity if self.nulls else None, _bytes_of(self.ends), self.data, self.nulls


def _value(section: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = _field(section, position, end)
    if size < 0:
        return None, position
    return section[position : position + size], position + size


class ColumnBuilder:
    """Fills the columns of `wanted` (the flags in `columns`) and decodes nothing else.

    A record's fields are read and checked up to the last wanted field. Only rows with first_offset <= offset <
    end_offset are taken. All methods raise the errors that `record_fault` makes; the builder must not be used after
    an error.

    Attributes:
        rows: the rows since the last `take`.
        data_bytes: the bytes of keys, values and headers since then. A column holds 2 GB at most.
    """

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._start()

    def _start(self) -> None:
        self.rows = 0
        self._least, self._greatest = _INT64_MAX, _INT64_MIN
        self._offsets, self._timestamps, self._header_ends = array("q"), array("q"), array("i", (0,))
        self._keys, self._values = _BinaryColumn(), _BinaryColumn()
        self._header_keys, self._header_values = _BinaryColumn(), _BinaryColumn()

    @property
    def data_bytes(self) -> int:
        """The bytes of keys, values and headers since the last `take`."""
        return sum(len(column.data) for column in (self._keys, self._values, self._header_keys, self._header_values))

    def append_section(  # noqa: PLR0917  (as the native twin)
        self,
        section: _Buffer,
        record_count: int,
        base_offset: Offset,
        base_timestamp: int,
        is_log_append_time: bool,
        log_append_time: int,
        first_offset: Offset,
        end_offset: Offset,
    ) -> int:
        """Add the uncompressed records of a magic 2 batch. Returns the number of rows added."""
        section = _whole(section)
        before, position = self.rows, 0
        timestamp = log_append_time
        is_delta = not is_log_append_time and self._wanted & TIMESTAMP
        for _ in range(record_count):
            size, position = read_varint(section, position, len(section))
            if not 1 <= size <= len(section) - position:
                raise record_fault(RecordFault.RECORD_SIZE)
            end = position + size
            delta, position = read_varlong(section, position + 1, end)
            if is_delta:
                timestamp = _sum(base_timestamp, delta)
            delta, position = read_varint(section, position, end)
            offset = _sum(base_offset, delta)
            if first_offset <= offset < end_offset:
                self._put_record(section, position, end)
                self._put_row(offset, timestamp)
            position = end
        if position != len(section):
            raise record_fault(RecordFault.BYTES_LEFT)
        return self.rows - before

    def _put_record(self, section: bytes, position: int, end: int) -> None:
        wanted = self._wanted
        if wanted & (KEY | VALUE | HEADERS):
            key, position = _value(section, position, end)
            if wanted & KEY:
                self._keys.put(key)
        if wanted & (VALUE | HEADERS):
            value, position = _value(section, position, end)
            if wanted & VALUE:
                self._values.put(value)
        if wanted & HEADERS:
            self._put_headers(section, position, end)

    def _put_headers(self, section: bytes, position: int, end: int) -> None:
        count, position = read_varint(section, position, end)
        if not 0 <= count <= end - position:
            raise record_fault(RecordFault.HEADER_COUNT)
        for _ in range(count):
            key, position = _value(section, position, end)
            if key is None:
                raise record_fault(RecordFault.NULL_HEADER_KEY)
            self._header_keys.put(key)
            value, position = _value(section, position, end)
            self._header_values.put(value)
        if position != end:
            raise record_fault(RecordFault.LONG_RECORD)
        self._header_ends.append(self._header_keys.count)

    def _put_row(self, offset: int, timestamp: int) -> None:
        if self._wanted & OFFSET:
            self._offsets.append(offset)
        if self._wanted & TIMESTAMP:
            self._least, self._greatest = min(self._least, timestamp), max(self._greatest, timestamp)
            self._timestamps.append(timestamp)
        self.rows += 1

    def append_messages(  # noqa: PLR0917  (as the native twin)
        self,
        messages: _Buffer,
        position: int,
        wrapper_offset: Offset,
        is_log_append_time: bool,
        log_append_time: int,
        first_offset: Offset,
        end_offset: Offset,
    ) -> tuple[int, int]:
        """Add uncompressed messages of magic 0 or 1 from `position` on, and check their checksums.

        With `wrapper_offset` >= 0 the messages are the inside of a wrapper that has this offset; pass 0 if the
        offsets inside are the real ones (magic 0). Otherwise the messages are a stretch of a log, which ends before
        the first message of another magic, codec or timestamp type. A partial message at the end is left out. With
        `is_log_append_time` every timestamp is `log_append_time`. Returns the position where reading ended, and the
        number of rows added.
        """
        messages = _whole(messages)
        before, kind = self.rows, (-1, -1)
        shift = _shift(messages, position, wrapper_offset) if wrapper_offset > 0 else 0
        while len(messages) - position >= 12:
            (size,) = struct.unpack_from(">i", messages, position + 8)
            if size < 14:
                raise record_fault(RecordFault.SMALL_MESSAGE)
            end = position + 12 + size
            if end > len(messages):
                break
            offset, _, crc, magic, attributes = _HEAD.unpack_from(messages, position)
            if kind[0] < 0:
                kind = (messages[position + 16], attributes & 0x0F)
            if magic not in {0, 1} or magic != kind[0] or (wrapper_offset < 0 and attributes & 0x0F != kind[1]):
                if wrapper_offset < 0 and kind[0] <= 1:
                    break
                raise record_fault(RecordFault.WRONG_MAGIC)
            if attributes & 7:
                raise record_fault(RecordFault.NESTED)
            if zlib.crc32(memoryview(messages)[position + 16 : end]) != crc:
                raise record_fault(RecordFault.CHECKSUM)
            offset = _sum(offset, shift)
            if first_offset <= offset < end_offset:
                timestamp = self._put_message(messages, position + 18, end, magic)
                self._put_row(offset, log_append_time if is_log_append_time else timestamp)
            position = end
        return position, self.rows - before

    def _put_message(self, messages: bytes, position: int, end: int, magic: int) -> int:
        """Add one message. Returns its timestamp."""
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
        if self._wanted & KEY:
            self._keys.put(key)
        if self._wanted & VALUE:
            self._values.put(value)
        if self._wanted & HEADERS:
            self._header_ends.append(self._header_keys.count)
        return timestamp

    def append_run(self, count: int, first_offset: Offset, timestamp: int) -> None:
        """Add rows that follow from a batch's header alone, with consecutive offsets and one timestamp. Raises
        ValueError if keys, values or headers are wanted.
        """
        if self._wanted & (KEY | VALUE | HEADERS):
            raise ValueError("a batch's header has no keys and values")
        for offset in range(first_offset, first_offset + count):
            self._put_row(offset, timestamp)

    def take(
        self,
    ) -> tuple[
        int,
        _Buffer | None,
        tuple[_Buffer, int, int] | None,
        _Binary | None,
        _Binary | None,
        tuple[_Buffer, _Binary, _Binary] | None,
    ]:
        """Return the filled columns, and start again: rows; offsets (int64); timestamps (int64, ms) with the least and
        the greatest; keys; values; headers. A column that is not wanted is None.

        A column of byte strings is: validity bitmap (None if there is no null), ends (int32, one more than rows, from
        0), data, number of nulls. The headers are: ends of each row's headers (int32, as before), their keys, their
        values. All buffers are the caller's.
        """
        wanted = self._wanted
        result = (
            self.rows,
            _bytes_of(self._offsets) if wanted & OFFSET else None,
            (_bytes_of(self._timestamps), self._least, self._greatest) if wanted & TIMESTAMP else None,
            self._keys.taken() if wanted & KEY else None,
            self._values.taken() if wanted & VALUE else None,
            (_bytes_of(self._header_ends), self._header_keys.taken(), self._header_values.taken()) if wanted & HEADERS else None,
        )
        self._start()
        return result


def _shift(messages: bytes, position: int, wrapper_offset: Offset) -> int:
    """Return what must be added to the offsets inside a wrapper, whose own offset is that of its last message."""
    last = -1
    while len(messages) - position >= 12:
        (size,) = struct.unpack_from(">i", messages, position + 8)
        if not 14 <= size <= len(messages) - position - 12:
            break
        last = position
        position += 12 + size
    if last < 0:
        return 0
    shift: int = wrapper_offset - _INT64.unpack_from(messages, last)[0]
    if shift < 0:
        raise record_fault(RecordFault.OUT_OF_RANGE)
    return shift
