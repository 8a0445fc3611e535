"""Converts down a batch that is large inside, piece by piece: a few bytes may stand for 128 MiB of records.

The kernels convert the whole records of a window at once. A message has its checksum before its content, so a record that is
larger than a window is read twice: for the checksum in a second stream, which inflates the batch again and is ahead of the first.
Memory holds a few windows, whatever the batch and its records have.

The messages are those of `conversions.down_convert_records`, and so are the errors. Everything here may run in any thread.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.model import Offset
from pybroker.records import conversions, kernels, sections
from pybroker.records._conversions_python import _CHECKED_0, _CHECKED_1
from pybroker.records._kernels_python import _sum
from pybroker.records.errors import RecordFault, record_fault
from pybroker.records.inflate import inflate_module
from pybroker.records.varint import VARINT_BYTES_MAX, VARLONG_BYTES_MAX, read_varint, read_varlong, varint
from pybroker.records.windows import WINDOW_BYTES, Window

if TYPE_CHECKING:
    from pybroker.records.batch import BatchView

_EVERY_OFFSET: Final = Offset(-(1 << 63))
_HEAD_BYTES_MAX: Final = 3 * VARINT_BYTES_MAX + 1 + VARLONG_BYTES_MAX
_ONLY_HEADERS: Final = b"\0\0\0\1\1"  # attributes, no timestamp and offset delta, no key, no value
_START: Final = struct.Struct(">qiI")  # offset, size, checksum
_INT32: Final = struct.Struct(">i")


class _Head(NamedTuple):
    """The head of a record: its `size` bytes begin at `start`, and its key at `key_at`, both from where the record begins."""

    size: int
    start: int
    timestamp_delta: int
    offset_delta: int
    key_size: int
    key_at: int

    @classmethod
    def of(cls, window: Window) -> _Head:
        """Read the head of the record at the start of the window."""
        data = window.head(_HEAD_BYTES_MAX)
        size, start = read_varint(data, 0, len(data))
        timestamp_delta, at = read_varlong(data, start + 1, len(data))
        offset_delta, at = read_varint(data, at, len(data))
        key_size, at = read_varint(data, at, len(data))
        return cls(size, start, timestamp_delta, offset_delta, key_size, at)


class DownPieces:
    """The messages of magic 0 or 1 inside the wrapper that a batch becomes. `messages` makes them, once.

    Attributes, once that has ended: the number of messages, the last one's offset and the greatest timestamp, at least -1.
    """

    __slots__ = ("_again", "_ahead", "_batch", "_pieces", "_shift", "_to_magic", "last_offset", "max_timestamp", "record_count")

    def __init__(
        self,
        batch: BatchView,
        to_magic: int,
        pieces: Iterator[bytes | memoryview],
        again: Callable[[], Iterator[bytes | memoryview]],
    ) -> None:
        """Take the batch's records in `pieces`; `again` yields them once more from the start."""
        self._batch = batch
        self._to_magic = to_magic
        self._pieces = pieces
        self._again = again
        self._ahead: Window | None = None
        self._shift = 0  # between a message's offset and the record's
        self.record_count = 0
        self.last_offset = self.max_timestamp = -1

    def messages(self) -> Iterator[bytes | memoryview]:
        """Yield the messages, cut anywhere. Raises CorruptRecordError."""
        window, left = Window(self._pieces), self._batch.record_count
        if self._to_magic:
            self._shift = self._batch.base_offset + _Head.of(window).offset_delta
        while left > 0:
            count, end = kernels.take_records(window.data, 0, left, len(window.data), True)
            if count:
                yield self._converted(window.data[:end], count)
                window.drop(end)
                left -= count
            elif len(window.data) >= WINDOW_BYTES:
                yield from self._large_record(window)
                left -= 1
            elif not window.grow():
                self._converted(window.data, left)  # raises what is wrong
        if window.data or window.grow():
            raise record_fault(RecordFault.BYTES_LEFT)

    def _converted(self, section: bytes | memoryview, count: int) -> bytes:
        batch = self._batch
        messages, _, last_offset, max_timestamp = conversions.down_convert_records(
            section,
            count,
            Offset(batch.base_offset - self._shift),
            batch.base_timestamp,
            bool(batch.timestamp_type),
            batch.max_timestamp,
            self._to_magic,
            _EVERY_OFFSET,
            False,
        )
        self._count(count, last_offset=last_offset + self._shift, max_timestamp=max_timestamp)
        return messages

    def _count(self, count: int, *, last_offset: int, max_timestamp: int) -> None:
        self.record_count += count
        self.last_offset = _sum(last_offset, 0)
        self.max_timestamp = max(self.max_timestamp, max_timestamp)

    def _large_record(self, window: Window) -> Iterator[bytes | memoryview]:
        """Yield the message of the record at the start of the window, and move the window behind it."""
        batch, head = self._batch, _Head.of(window)
        timestamp = batch.max_timestamp if batch.timestamp_type else _sum(batch.base_timestamp, head.timestamp_delta)
        if self._ahead is None:
            self._ahead = Window(self._again())
        size, crc = self._look_ahead(self._ahead, window.position, head, timestamp)
        self._count(1, last_offset=batch.base_offset + head.offset_delta, max_timestamp=timestamp)
        yield _START.pack(self.last_offset - self._shift, size + 4, crc)
        left = yield from self._content(window, head, timestamp)
        window.skip(left)

    def _look_ahead(self, ahead: Window, position: int, head: _Head, timestamp: int) -> tuple[int, int]:
        """Look through the record at `position`, and return the size and the checksum of what its message has behind that."""
        ahead.skip(position - ahead.position)
        crc32, size, crc = inflate_module().crc32, 0, 0
        content = self._content(ahead, head, timestamp)
        while True:
            try:
                part = next(content)
            except StopIteration as stopped:
                left: int = stopped.value
                break
            crc = crc32(part, crc)
            size += len(part)
        headers = sections.Overview(1, 0)
        headers.feed(varint(len(_ONLY_HEADERS) + left) + _ONLY_HEADERS)
        for part in ahead.run(left):
            headers.feed(part)
        headers.finish()
        return size, crc

    def _content(self, window: Window, head: _Head, timestamp: int) -> Generator[bytes | memoryview, None, int]:
        """Yield what the message has behind its checksum; return how many bytes of the record are left, which are its headers."""
        left = head.start + head.size - head.key_at
        window.skip(head.key_at)
        key_size = max(head.key_size, -1)
        attributes = 0x08 if self._batch.timestamp_type else 0
        yield _CHECKED_1.pack(1, attributes, timestamp, key_size) if self._to_magic else _CHECKED_0.pack(0, 0, key_size)
        left -= max(key_size, 0)
        if left < 0:
            raise record_fault(RecordFault.LONG_FIELD)
        yield from window.run(key_size)
        number = window.head(min(left, VARINT_BYTES_MAX))
        value_size, at = read_varint(number, 0, len(number))
        window.drop(at)
        left -= at + max(value_size, 0)
        if left < 0:
            raise record_fault(RecordFault.LONG_FIELD)
        yield _INT32.pack(max(value_size, -1))
        yield from window.run(value_size)
        return left
