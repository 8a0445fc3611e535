"""Converts messages of magic 0 or 1 up that are large inside, piece by piece: a few bytes may stand for 128 MiB of messages.

The kernels convert the whole messages of a window at once. A message that is larger than a window goes through in parts. Its
checksum, and whether it is there as a whole, is looked at before in a second stream, which inflates the messages again and is
ahead of the first. Memory holds a few windows, whatever the messages have.

The records are those of `conversions.up_convert_messages`, and so are the errors. Everything here may run in any thread.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from pybroker.records import conversions
from pybroker.records._kernels_python import _INT64_MAX, _sum
from pybroker.records.batch import BATCH_LENGTH_AT, COMPRESSION_MASK, LOG_OVERHEAD, NO_TIMESTAMP
from pybroker.records.errors import RecordFault, record_fault
from pybroker.records.inflate import inflate_module
from pybroker.records.legacy import CHECKED_FROM, HEAD, MessageView
from pybroker.records.varint import append_varint
from pybroker.records.windows import WINDOW_BYTES, Window

if TYPE_CHECKING:
    from pybroker.records.rules import ValidationRules

Pieces = Iterator[bytes | memoryview]

_TIMESTAMP: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_NULL_VALUE: Final = b"\1"  # a size of -1; as long as a size of 0
_NO_HEADERS: Final = b"\0"


class UpPieces:
    """The records that messages become. `sections` makes them, once; then the other attributes are those of `convert.Lifted`.

    It can be looked through again like `rebuild.Records`.
    """

    __slots__ = (
        "_again",
        "_ahead",
        "_first",
        "_pieces",
        "base_timestamp",
        "keyless_count",
        "max_timestamp",
        "min_timestamp",
        "record_count",
        "rules",
    )

    def __init__(self, first: MessageView, pieces: Pieces, again: Callable[[], Pieces], rules: ValidationRules) -> None:
        """Take the messages in `pieces`, which are inside `first`, or `first` and those behind it. `again` yields the pieces once
        more from the start.
        """
        self._first = first
        self._pieces = pieces
        self._again = again
        self._ahead: Window | None = None
        self.rules = rules
        self.record_count = self.base_timestamp = self.keyless_count = 0
        self.max_timestamp, self.min_timestamp = NO_TIMESTAMP, _INT64_MAX

    def pieces_again(self) -> Pieces:
        """Yield the sections once more."""
        return UpPieces(self._first, self._again(), self._again, self.rules).sections()

    def sections(self) -> Pieces:
        """Yield the records, cut anywhere. Raises CorruptRecordError."""
        window = Window(self._pieces)
        while window.grow():
            yield from self._converted(window)
            while len(window.data) >= WINDOW_BYTES:
                size = _INT32.unpack_from(window.data, BATCH_LENGTH_AT)[0] + LOG_OVERHEAD
                if not self._is_sound(window, size):
                    return
                yield from self._large_message(window, size)
                yield from self._converted(window)

    @property
    def _append_time(self) -> int | None:
        """The timestamp of all records, if a wrapper has it."""
        first = self._first
        return first.timestamp if first.compression and first.timestamp_type else None

    def _converted(self, window: Window) -> Iterator[bytes]:
        """Yield the whole messages of the window as records, and leave them out of it."""
        append_time = self._append_time
        section, count, self.base_timestamp, latest, earliest, keyless, end = conversions.up_convert_messages(
            window.data, self._first.magic, append_time is not None, append_time or 0, self.record_count, self.base_timestamp
        )
        if end:
            self._count(count, latest=latest, earliest=earliest, keyless=keyless)
            window.drop(end)
            yield section

    def _count(self, record_count: int, *, latest: int, earliest: int, keyless: int) -> None:
        self.record_count = record_count
        self.max_timestamp = max(self.max_timestamp, latest)
        self.min_timestamp = min(self.min_timestamp, earliest)
        self.keyless_count += keyless

    def _is_sound(self, window: Window, size: int) -> bool:
        """Return whether the message at the start of the window is whole; a partial one is the last, and is left out."""
        if self._ahead is None:
            self._ahead = Window(self._again())
        ahead, crc32, computed = self._ahead, inflate_module().crc32, 0
        ahead.skip(window.position + CHECKED_FROM - ahead.position)
        for part in ahead.run(size - CHECKED_FROM):
            computed = crc32(part, computed)
        if ahead.position < window.position + size:
            return False
        _, _, crc, magic, attributes = HEAD.unpack_from(window.data)
        if not 0 <= magic <= 1:
            raise record_fault(RecordFault.WRONG_MAGIC)
        if crc != computed:
            raise record_fault(RecordFault.CHECKSUM)
        if magic != self._first.magic:
            raise record_fault(RecordFault.WRONG_MAGIC)
        if attributes & COMPRESSION_MASK:
            raise record_fault(RecordFault.NESTED)
        return True

    def _large_message(self, window: Window, size: int) -> Pieces:
        """Yield the record of the message at the start of the window, and leave the message out of it."""
        timestamp = self._append_time
        fields = HEAD.size
        if self._first.magic:
            if timestamp is None:
                (timestamp,) = _TIMESTAMP.unpack_from(window.data, fields)
            fields += _TIMESTAMP.size
        if timestamp is None:
            timestamp = NO_TIMESTAMP
        (key_size,) = _INT32.unpack_from(window.data, fields)
        window.drop(fields + _INT32.size)
        value_size = size - fields - 2 * _INT32.size - max(key_size, 0)
        if value_size < 0:
            raise record_fault(RecordFault.MESSAGE_FIELDS)
        if not self.record_count:
            self.base_timestamp = timestamp
        head, value_head, start = bytearray(1), bytearray(), bytearray()
        append_varint(head, _sum(timestamp, -self.base_timestamp))
        append_varint(head, self.record_count)
        append_varint(head, max(key_size, -1))
        append_varint(value_head, value_size)
        append_varint(start, len(head) + max(key_size, 0) + len(value_head) + value_size + len(_NO_HEADERS))
        yield bytes(start + head)
        yield from window.run(key_size)
        (claimed,) = _INT32.unpack(window.head(_INT32.size))
        window.drop(_INT32.size)
        if max(claimed, 0) != value_size:
            raise record_fault(RecordFault.MESSAGE_FIELDS)
        yield bytes(value_head) if claimed >= 0 else _NULL_VALUE
        yield from window.run(value_size)
        yield _NO_HEADERS
        earliest = _INT64_MAX if timestamp == NO_TIMESTAMP else timestamp
        self._count(self.record_count + 1, latest=timestamp, earliest=earliest, keyless=int(key_size < 0))
