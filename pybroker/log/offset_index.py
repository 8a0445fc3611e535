"""The sparse map from offsets to file positions, `<base offset>.index`.

    field            bytes  meaning
    relative offset  4      last offset of a batch, minus the segment's base offset
    position         4      where that batch begins in the data file

An entry follows about every `index.interval.bytes` of data, never the first batch of a segment. `lookup` gives the last batch that is known
to end at or before the target, and the reader walks the batch headers from there.

Source: org.apache.kafka.storage.internals.log.OffsetIndex.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.log.entry_file import CorruptIndexError, EntryFile

if TYPE_CHECKING:
    from pybroker.log.filesystem import Filesystem

ENTRY: Final = struct.Struct(">ii")
assert ENTRY.size == 8


class OffsetPosition(NamedTuple):
    """Where the batch with the last offset `offset` begins."""

    offset: int
    position: int


class OffsetIndex:
    """One segment's index; in memory until `write`."""

    __slots__ = ("_entries", "base_offset", "entries_max", "last_offset")

    def __init__(self, filesystem: Filesystem, path: str, *, base_offset: int, bytes_max: int) -> None:
        self._entries = EntryFile(filesystem, path, ENTRY.size)
        self.base_offset = base_offset
        self.entries_max = bytes_max // ENTRY.size
        self.last_offset = base_offset

    @property
    def path(self) -> str:
        return self._entries.path

    @path.setter
    def path(self, path: str) -> None:
        self._entries.path = path

    @property
    def count(self) -> int:
        return self._entries.count

    @property
    def is_full(self) -> bool:
        return self._entries.count >= self.entries_max

    def load(self, data_size: int) -> None:
        """Read the file. Raises FileNotFoundError; CorruptIndexError when its ends cannot be true for `data_size` bytes of data."""
        self._entries.load()
        count = self._entries.count
        while count and self.entry(count - 1) == (self.base_offset, 0) and count > 1:
            count -= 1  # holes at the end of a file that Kafka preallocated
        self._entries.truncate(count)
        if not count:
            self.last_offset = self.base_offset
            return
        first, last = self.entry(0), self.entry(count - 1)
        in_order = count == 1 or (first.offset < last.offset and first.position < last.position)
        if first.offset < self.base_offset or first.position < 0 or last.position >= data_size or not in_order:
            raise CorruptIndexError(f"{self.path}: entries from {first} to {last} do not fit {data_size} bytes of data")
        self.last_offset = last.offset

    def entry(self, slot: int) -> OffsetPosition:
        buffer, at = self._entries.entry(slot)
        relative, position = ENTRY.unpack_from(buffer, at)
        return OffsetPosition(self.base_offset + relative, position)

    def append(self, offset: int, position: int) -> None:
        """Add an entry; offsets and positions must grow."""
        if self._entries.count and offset <= self.last_offset:
            raise CorruptIndexError(f"{self.path}: offset {offset} after {self.last_offset}")
        self._entries.append(ENTRY.pack(offset - self.base_offset, position))
        self.last_offset = offset

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry with an offset <= `offset`, or the segment's start."""
        slot = self._slot(offset)
        return self.entry(slot) if slot >= 0 else OffsetPosition(self.base_offset, 0)

    def _slot(self, offset: int) -> int:
        relative = offset - self.base_offset
        low, high = 0, self._entries.count  # the answer is low - 1
        entry, unpack = self._entries.entry, ENTRY.unpack_from
        if high and offset >= self.last_offset:
            return high - 1
        while low < high:
            middle = (low + high) // 2
            if unpack(*entry(middle))[0] <= relative:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        slot = self._slot(offset)
        while slot >= 0 and self.entry(slot).offset >= offset:
            slot -= 1
        self._entries.truncate(slot + 1)
        self.last_offset = self.entry(slot).offset if slot >= 0 else self.base_offset

    def reset(self) -> None:
        """Drop everything, on disk too."""
        self._entries.filesystem.create_empty(self.path)
        self._entries.load()
        self.last_offset = self.base_offset

    def write(self) -> None:
        """Bring the entries into the file, not yet durable."""
        self._entries.write()

    def release(self) -> None:
        """Let go of the map."""
        self._entries.release()
