"""Walks through the records of one batch, which come in pieces, in Python: the contract, and what runs where the native part
was not built.

A section is the uncompressed records of a magic 2 batch. It is given piece by piece as it is inflated, cut anywhere. A walk looks
at the small fields of each record and skips keys, values and headers: it keeps nothing of a piece, and makes no object for a
record. So a few kB that stand for a gigabyte, or for millions of records, cost no memory. A piece is borrowed until `feed`
returns. All methods raise the errors that `record_fault` makes, at the first fault.

Use: `feed` each piece until it returns True, then `finish`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from pybroker.model import Offset
from pybroker.records._kernels_python import _parse, _sum
from pybroker.records.errors import InvalidRecordError, RecordFault, record_fault
from pybroker.records.varint import VARINT_BYTES_MAX, VARLONG_BYTES_MAX, append_varint, read_varint, read_varlong

__all__ = ["Overview", "Refusals", "Renumbering", "Search"]

_NO_TIMESTAMP: Final = -1
_HEAD_BYTES_MAX: Final = 21  # size, attributes, timestamp delta, offset delta


class Refused(NamedTuple):
    """The findings of `Refusals`. `first` has the index and timestamp of each record, and whether it has a key."""

    first: list[tuple[int, int, bool]]
    total: int
    is_late_or_early: bool


class _Walk:
    """A walk through the records. A subclass defines in `note` what is done with each."""

    __slots__ = ("_across", "_base_timestamp", "_count", "_index")

    def __init__(self, record_count: int, base_timestamp: int) -> None:
        self._count = record_count
        self._base_timestamp = base_timestamp
        self._index = 0
        self._across: Generator[None, tuple[bytes, int], int] | None = None  # walks through a record that no piece has whole

    def feed(self, piece: bytes | bytearray | memoryview) -> bool:
        """Look at the next piece. Returns True if what is looked for was found, and the rest does not matter."""
        piece, position = bytes(piece), 0
        while position < len(piece):
            if self._across is not None:
                try:
                    self._across.send((piece, position))
                except StopIteration as stopped:
                    self._across, position = None, stopped.value
                    continue
                return self._is_found()
            if self._is_found():
                return True
            if self._index == self._count:
                raise record_fault(RecordFault.BYTES_LEFT)
            if _is_whole(piece, position):
                timestamp_delta, offset_delta, _, key_size, _, _, position = _parse(piece, position)
                self._take(timestamp_delta, offset_delta, key_size)
            else:
                self._across = self._record()
                next(self._across)
        return self._is_found()

    def finish(self) -> None:
        """Check that nothing is missing after the last piece."""
        if self._is_found():
            return
        if self._across is not None:
            raise record_fault(RecordFault.RECORD_SIZE)
        if self._index < self._count:
            raise record_fault(RecordFault.CUT_NUMBER)

    def _is_found(self) -> bool:
        return False

    def _take(self, timestamp_delta: int, offset_delta: int, key_size: int) -> None:
        self.note(_sum(self._base_timestamp, timestamp_delta), offset_delta, key_size)
        self._index += 1

    def note(self, timestamp: int, offset_delta: int, key_size: int) -> None:
        """Take the next record; `key_size` is negative for a null key."""
        raise NotImplementedError

    def _record(self) -> Generator[None, tuple[bytes, int], int]:
        """Walk through one record that begins here, piece after piece; return where it ends in the last."""
        fields = _Fields(*(yield))
        size = yield from fields.number(VARINT_BYTES_MAX)
        if size < 1:
            raise record_fault(RecordFault.RECORD_SIZE)
        fields.left = size
        yield from fields.skip(1)
        timestamp_delta = yield from fields.number(VARLONG_BYTES_MAX)
        offset_delta = yield from fields.number(VARINT_BYTES_MAX)
        key_size = yield from fields.field()
        yield from fields.field()
        headers = yield from fields.number(VARINT_BYTES_MAX)
        if not 0 <= headers <= fields.left:
            raise record_fault(RecordFault.HEADER_COUNT)
        for _ in range(headers):
            if (yield from fields.field()) < 0:
                raise record_fault(RecordFault.NULL_HEADER_KEY)
            yield from fields.field()
        if fields.left:
            raise record_fault(RecordFault.LONG_RECORD)
        self._take(timestamp_delta, offset_delta, key_size)
        return fields.position


class _Fields:
    """The fields of a record that is spread over several pieces."""

    __slots__ = ("left", "piece", "position")

    def __init__(self, piece: bytes, position: int) -> None:
        self.piece, self.position = piece, position
        self.left: int | None = None  # the bytes of the record from here on; None before its size is known

    def number(self, bytes_max: int) -> Generator[None, tuple[bytes, int], int]:
        digits = bytearray()
        while not digits or digits[-1] >= 0x80:
            if len(digits) == bytes_max:
                raise record_fault(RecordFault.LONG_NUMBER)
            if self.left is not None:
                if not self.left:
                    raise record_fault(RecordFault.CUT_NUMBER)
                self.left -= 1
            if self.position == len(self.piece):
                self.piece, self.position = yield
            digits.append(self.piece[self.position])
            self.position += 1
        read = read_varint if bytes_max == VARINT_BYTES_MAX else read_varlong
        return read(bytes(digits), 0, len(digits))[0]

    def skip(self, count: int) -> Generator[None, tuple[bytes, int], None]:
        assert self.left is not None
        self.left -= count
        while count > len(self.piece) - self.position:
            count -= len(self.piece) - self.position
            self.piece, self.position = yield
        self.position += count

    def field(self) -> Generator[None, tuple[bytes, int], int]:
        size = yield from self.number(VARINT_BYTES_MAX)
        assert self.left is not None
        if size > self.left:
            raise record_fault(RecordFault.LONG_FIELD)
        if size > 0:
            yield from self.skip(size)
        return size


def _is_whole(piece: bytes, position: int) -> bool:
    """Return whether `_parse` may look at the record at `position`: all of it is in the piece, or its size is wrong."""
    try:
        size, position = read_varint(piece, position, len(piece))
    except InvalidRecordError:
        return len(piece) - position >= VARINT_BYTES_MAX
    return size <= len(piece) - position


class Overview(_Walk):
    """The facts about records that a batch's header and the topic's rules need.

    Attributes: `max_timestamp`, -1 if there is none; `min_timestamp` of those that are not -1, INT64_MAX if there is none;
    `keyless`, the number of records without a key; `is_sequential`: the offset deltas count 0, 1, 2...
    """

    __slots__ = ("is_sequential", "keyless", "max_timestamp", "min_timestamp")

    def __init__(self, record_count: int, base_timestamp: int) -> None:
        super().__init__(record_count, base_timestamp)
        self.max_timestamp, self.min_timestamp = _NO_TIMESTAMP, (1 << 63) - 1
        self.keyless, self.is_sequential = 0, True

    def note(self, timestamp: int, offset_delta: int, key_size: int) -> None:
        """Take the next record."""
        self.max_timestamp = max(self.max_timestamp, timestamp)
        if timestamp != _NO_TIMESTAMP:
            self.min_timestamp = min(self.min_timestamp, timestamp)
        self.keyless += key_size < 0
        self.is_sequential &= offset_delta == self._index


class Refusals(_Walk):
    """The records without a key, if `needs_key`, and those with a timestamp outside of [earliest, latest].

    A record without a timestamp (-1) is inside. `refused` has the first `listed_max` of them, how many there are, and whether a
    record that has the key it needs is outside.
    """

    __slots__ = ("_earliest", "_first", "_is_late_or_early", "_latest", "_listed_max", "_needs_key", "_total")

    def __init__(  # noqa: PLR0917  (as the native part's)
        self, record_count: int, base_timestamp: int, needs_key: bool, earliest: int, latest: int, listed_max: int
    ) -> None:
        super().__init__(record_count, base_timestamp)
        self._needs_key, self._earliest, self._latest, self._listed_max = needs_key, earliest, latest, listed_max
        self._first: list[tuple[int, int, bool]] = []
        self._total, self._is_late_or_early = 0, False

    @property
    def refused(self) -> Refused:
        """The facts that were found."""
        return Refused(self._first, self._total, self._is_late_or_early)

    def note(self, timestamp: int, offset_delta: int, key_size: int) -> None:  # noqa: ARG002
        """Take the next record."""
        lacks_key = self._needs_key and key_size < 0
        if lacks_key or (timestamp != _NO_TIMESTAMP and not self._earliest <= timestamp <= self._latest):
            self._total += 1
            self._is_late_or_early |= not lacks_key
            if self._total <= self._listed_max:
                self._first.append((self._index, timestamp, key_size >= 0))


class Search(_Walk):
    """The first record at or after both `timestamp` and `start_offset`; if `timestamp` is None, the first of the records from
    `start_offset` on that have the largest timestamp.

    `found` has its offset and timestamp; None if there is no such record, or none with a timestamp where the largest is wanted.
    """

    __slots__ = ("_base_offset", "_start_offset", "_wanted", "found")

    def __init__(
        self, record_count: int, base_offset: Offset, base_timestamp: int, timestamp: int | None, start_offset: Offset
    ) -> None:
        super().__init__(record_count, base_timestamp)
        self._base_offset, self._wanted, self._start_offset = base_offset, timestamp, start_offset
        self.found: tuple[Offset, int] | None = None

    def _is_found(self) -> bool:
        return self._wanted is not None and self.found is not None

    def note(self, timestamp: int, offset_delta: int, key_size: int) -> None:  # noqa: ARG002
        """Take the next record."""
        offset = _sum(self._base_offset, offset_delta)
        if offset < self._start_offset:
            return
        least = (_NO_TIMESTAMP if self.found is None else self.found[1]) + 1 if self._wanted is None else self._wanted
        if timestamp >= least:
            self.found = Offset(offset), timestamp


class Renumbering:
    """Gives the records the offset deltas 0, 1, 2... and every record its own timestamp; the rest of each is copied.

    With `log_append_time`, which then holds for every record, that is the timestamp. `base_timestamp_made` is the timestamp that
    the new deltas count from, the first record's. An `Overview` must have found the records good: here only their heads are read.
    """

    __slots__ = ("_base_timestamp", "_copied", "_count", "_head", "_index", "_log_append_time", "base_timestamp_made")

    def __init__(self, record_count: int, base_timestamp: int, log_append_time: int | None) -> None:
        self._count, self._base_timestamp, self._log_append_time = record_count, base_timestamp, log_append_time
        self._head = b""  # the beginning of a record whose head was cut
        self._copied = self._index = self.base_timestamp_made = 0

    def feed(self, piece: bytes | bytearray | memoryview) -> bytes:
        """Return what the next piece becomes."""
        out = bytearray()
        data, position, self._head = self._head + bytes(piece), 0, b""
        while position < len(data):
            if self._copied:
                part = data[position : position + self._copied]
                out += part
                position += len(part)
                self._copied -= len(part)
            elif self._index == self._count:
                raise record_fault(RecordFault.BYTES_LEFT)
            else:
                try:
                    position = self._put_head(out, data, position)
                except InvalidRecordError:
                    if len(data) - position >= _HEAD_BYTES_MAX:
                        raise
                    self._head, position = data[position:], len(data)
        return bytes(out)

    def finish(self) -> None:
        """Check that nothing is missing after the last piece."""
        if self._head or self._copied:
            raise record_fault(RecordFault.RECORD_SIZE)
        if self._index < self._count:
            raise record_fault(RecordFault.CUT_NUMBER)

    def _put_head(self, out: bytearray, data: bytes, position: int) -> int:
        size, at = read_varint(data, position, len(data))
        end = at + size
        delta, at = read_varlong(data, at + 1, len(data))
        _, at = read_varint(data, at, len(data))
        if at > end:
            raise record_fault(RecordFault.RECORD_SIZE)
        timestamp = self._log_append_time
        if timestamp is None:
            timestamp = _sum(self._base_timestamp, delta)
        if not self._index:
            self.base_timestamp_made = timestamp
        head = bytearray(1)  # the attributes, of which none is defined
        append_varint(head, _sum(timestamp, -self.base_timestamp_made))
        append_varint(head, self._index)
        append_varint(out, len(head) + end - at)
        out += head
        self._copied = end - at
        self._index += 1
        return at
