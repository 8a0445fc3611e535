"""Reads a partition's files while a broker writes them. Nothing here ever changes, maps or locks a file.

`LogSegment` cannot do this, because it mends what it finds and opens files for writing. Here a file may grow, be renamed or
vanish at any time. Files are read with `pread`, because a map of a file that shrinks kills the process. An index entry is trusted
only after a look at the batch that it names.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from pybroker.log.files.filesystem import Filesystem
from pybroker.log.indexes import offset_index, time_index
from pybroker.log.segments.file_records import SegmentFile
from pybroker.log.segments.segment_files import (
    DATA_SUFFIX,
    DELETED_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from pybroker.model import LAST_OFFSET, Offset
from pybroker.records.batch import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    SIZE_TO_MAGIC,
    BatchView,
    claimed_size,
)
from pybroker.records.errors import CorruptRecordError
from pybroker.spark.errors import PipelineError

HEADER_WINDOW: Final = 4096
_INT64: Final = struct.Struct(">q")


class ReadOnlyFilesystem(Filesystem):
    """A filesystem that opens every file for reading only."""

    __slots__ = ()

    def open(self, path: str, *, writable: bool, create: bool = False) -> int:
        """Return a file descriptor, which the caller owns. `writable` and `create` have no effect."""
        del writable, create
        return super().open(path, writable=False)


FILESYSTEM: Final = ReadOnlyFilesystem()


class CorruptSegmentError(PipelineError):
    """A file has something other than a sound batch at byte `position`."""

    def __init__(self, path: str, position: int, reason: object) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {reason}")
        self.position = position


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment as it was listed: its data file has `size` bytes and the inode number `inode`."""

    directory: str
    base_offset: Offset
    size: int
    inode: int

    @property
    def stem(self) -> str:
        """The path of the segment's files, without their suffixes."""
        return f"{self.directory}/{self.base_offset:020d}"

    @property
    def path(self) -> str:
        """The path of the data file."""
        return self.stem + DATA_SUFFIX

    @property
    def transaction_index_path(self) -> str:
        """The path of the transaction index, a file that exists only if a transaction was aborted."""
        return self.stem + TRANSACTION_INDEX_SUFFIX

    @classmethod
    def of(cls, directory: str, base_offset: Offset) -> Segment:
        """List the segment as it is now. Raises FileNotFoundError."""
        status = os.stat(f"{directory}/{base_offset:020d}{DATA_SUFFIX}")  # noqa: PTH116  (a Path costs more than the call)
        return cls(directory, base_offset, status.st_size, status.st_ino)

    def open(self) -> SegmentFile | None:
        """Open the data file, even if it was deleted within `file.delete.delay.ms`. Return None if the file no longer exists."""
        for path in (self.path, self.path + DELETED_SUFFIX):
            try:
                file = SegmentFile(FILESYSTEM, path)
            except FileNotFoundError:
                continue
            if os.fstat(file.fd).st_ino == self.inode:
                return file
        return None


class Entry(NamedTuple):
    """A batch, or a message of magic 0 or 1, at `at` of `buffer`. The buffer holds its header, and perhaps the rest."""

    buffer: memoryview
    at: int
    position: int  # in the file
    size: int
    magic: int

    @property
    def offset(self) -> Offset:
        """The value of the first field: the first offset of a batch, or the last offset of a message."""
        return Offset(_INT64.unpack_from(self.buffer, self.at)[0])

    @property
    def last_offset(self) -> Offset:
        """The last offset of the batch or message."""
        return BatchView(self.buffer, self.at).last_offset if self.magic == MAGIC else self.offset

    def begins_at_or_after(self, offset: Offset) -> bool:
        """Return whether all its records do, as far as the header shows. The header of a wrapper has only the last offset."""
        is_wrapper = self.magic < MAGIC and self.buffer[self.at + SIZE_TO_MAGIC] & COMPRESSION_MASK
        return not is_wrapper and self.offset >= offset


class Walker:
    """An iterator over the entries of a data file from `position`, where an entry must begin, to `limit`.

    It reads `window` bytes at a time. With `is_whole`, an entry has all its bytes, otherwise perhaps only its header. The caller
    may set `position` forward.
    """

    __slots__ = ("_buffer", "_start", "file", "is_whole", "limit", "position", "window")

    def __init__(
        self, file: SegmentFile, position: int, *, limit: int, window: int = HEADER_WINDOW, is_whole: bool = False
    ) -> None:
        self.file = file
        self.position = position
        self.limit = limit
        self.window = window
        self.is_whole = is_whole
        self._buffer = memoryview(b"")
        self._start = position

    def next(self) -> Entry | None:
        """Return the next entry, or None at the limit.

        Raises CorruptSegmentError if no entry begins here or if it does not end by the limit, and OSError.
        """
        position, limit = self.position, self.limit
        if position >= limit:
            return None
        if position + HEADER_SIZE > self._start + len(self._buffer) < limit:
            self._read(min(self.window, limit - position))
        at = position - self._start
        try:
            size = claimed_size(self._buffer, at)
        except CorruptRecordError as error:
            raise CorruptSegmentError(self.file.path, position, error) from error
        if size is None or position + size > limit:
            raise CorruptSegmentError(
                self.file.path, position, f"{limit - position} bytes are left, but a batch of {size or 'more'} bytes begins"
            )
        if self.is_whole and at + size > len(self._buffer):
            self._read(min(max(self.window, size), limit - position))
            at = 0
        self.position = position + size
        return Entry(self._buffer, at, position, size, self._buffer[at + MAGIC_AT])

    def _read(self, size: int) -> None:
        self._buffer, self._start = memoryview(self.file.pread(size, self.position)), self.position


def walk(file: SegmentFile, position: int, *, limit: int) -> Iterator[Entry]:
    """Yield the entries, perhaps only their headers. Raises what `Walker.next` raises."""
    walker = Walker(file, position, limit=limit)
    while (entry := walker.next()) is not None:
        yield entry


class Index:
    """The entries of an index, looked up by `pread`. Kafka's active indexes end in a stretch of zeros, which does not count."""

    __slots__ = ("_file", "_layout", "count")

    def __init__(self, path: str, layout: struct.Struct) -> None:
        self._layout = layout
        self._file: SegmentFile | None = None
        self.count = 0
        try:
            self._file = SegmentFile(FILESYSTEM, path)
        except FileNotFoundError:
            return
        self.count = self._file.size // layout.size
        if self.count and not any(self.fields(self.count - 1)):
            low, high = 0, self.count - 1  # all entries from `high` are zeros
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if not any(self.fields(middle)) else (middle + 1, high)
            self.count = low

    def fields(self, slot: int) -> tuple[int, ...]:
        """Return the fields of an entry, or zeros if the file was truncated meanwhile."""
        assert self._file is not None
        size = self._layout.size
        return self._layout.unpack(FILESYSTEM.pread(self._file.fd, size, slot * size).ljust(size, b"\0"))

    def floor(self, key: int, *, field: int = 0) -> tuple[int, ...] | None:
        """Return the last entry whose `field` is at most `key`."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.fields(middle)[field] <= key else (low, middle)
        return self.fields(low - 1) if low else None

    def last(self) -> tuple[int, ...] | None:
        """Return the last entry."""
        return self.fields(self.count - 1) if self.count else None


class SegmentLookup:
    """A finder of positions in one segment: it looks into the indexes and checks what they show against the data."""

    __slots__ = ("_file", "_offsets", "_segment")

    def __init__(self, segment: Segment, file: SegmentFile) -> None:
        self._segment = segment
        self._file = file
        self._offsets = Index(segment.stem + OFFSET_INDEX_SUFFIX, offset_index.ENTRY)

    def _batch_at(self, entry: tuple[int, ...] | None) -> BatchView | None:
        """Return the batch header that an offset index entry points to, if it has the entry's offset; None at the start."""
        if entry is None or not 0 < entry[1] <= self._segment.size - HEADER_SIZE:
            return None
        batch = BatchView(memoryview(self._file.pread(HEADER_SIZE, entry[1])))
        is_right = batch.magic == MAGIC and batch.last_offset == self._segment.base_offset + entry[0]
        return batch if is_right and batch.batch_length >= HEADER_SIZE else None

    def position_before(self, offset: Offset) -> int:
        """Return a position at which a batch begins, at or before the batch that holds `offset`."""
        entry = self._offsets.floor(offset - self._segment.base_offset)
        return entry[1] if entry is not None and self._batch_at(entry) is not None else 0

    def last_position(self) -> int:
        """Return the last position that the offset index has."""
        entry = self._offsets.last()
        return entry[1] if entry is not None and self._batch_at(entry) is not None else 0

    def batch_near(self, position: int) -> tuple[Offset, int] | None:
        """Return the first offset and the position of the last indexed batch at or before `position`.

        Return None at the start of the segment.
        """
        entry = self._offsets.floor(position, field=1)
        batch = self._batch_at(entry)
        return None if entry is None or batch is None else (batch.base_offset, entry[1])

    def older_until(self, timestamp: int, *, is_sealed: bool) -> Offset:
        """Return the offset up to which every record is older than `timestamp` (ms).

        If that is unknown, it is the segment's base offset - 1. In a sealed segment the last entry of the time index has the
        largest timestamp of all records, so if that one is older, the whole segment is.
        """
        times = Index(self._segment.stem + TIME_INDEX_SUFFIX, time_index.ENTRY)
        entry, base_offset = times.floor(timestamp - 1), self._segment.base_offset
        if entry is None:
            return base_offset - 1
        found, offset = entry[0], base_offset + entry[1]
        for one in walk(self._file, self.position_before(offset), limit=self._segment.size):
            if one.magic != MAGIC or one.offset > offset:
                break
            if one.last_offset >= offset:
                if BatchView(one.buffer, one.at).max_timestamp != found:
                    break
                return LAST_OFFSET if is_sealed and entry == times.last() else offset
        return base_offset - 1
