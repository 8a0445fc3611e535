"""The sparse map from timestamps to offsets, `<base offset>.timeindex`.

    field            bytes  meaning
    timestamp        8      ms; the largest timestamp in the segment up to and with the batch
    relative offset  4      last offset of the batch that has this timestamp, minus the segment's base offset

Both columns grow. The entry with the segment's largest timestamp is added when the segment is rolled or closed, so the last entry tells for
retention how young the segment is.

Source: org.apache.kafka.storage.internals.log.TimeIndex.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.log.entry_file import CorruptIndexError, EntryFile

if TYPE_CHECKING:
    from pybroker.log.filesystem import Filesystem

ENTRY: Final = struct.Struct(">qi")
assert ENTRY.size == 12
NO_TIMESTAMP: Final = -1


class TimestampOffset(NamedTuple):
    """A largest timestamp so far, in ms, and the last offset of the batch it is in."""

    timestamp: int
    offset: int


class TimeIndex:
    """One segment's index; in memory until `write`."""

    __slots__ = ("_entries", "base_offset", "entries_max", "last_entry")

    def __init__(self, filesystem: Filesystem, path: str, *, base_offset: int, bytes_max: int) -> None:
        self._entries = EntryFile(filesystem, path, ENTRY.size)
        self.base_offset = base_offset
        self.entries_max = bytes_max // ENTRY.size
        self.last_entry = TimestampOffset(NO_TIMESTAMP, base_offset)

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
        """One slot is kept for the entry of the roll."""
        return self._entries.count >= self.entries_max - 1

    def load(self) -> None:
        """Read the file. Raises FileNotFoundError, CorruptIndexError."""
        self._entries.load()
        count = self._entries.count
        while count and self.entry(count - 1) == (0, self.base_offset) and count > 1:
            count -= 1  # holes at the end of a file that Kafka preallocated
        self._entries.truncate(count)
        if not count:
            self.last_entry = TimestampOffset(NO_TIMESTAMP, self.base_offset)
            return
        first, last = self.entry(0), self.entry(count - 1)
        in_order = count == 1 or (first.timestamp < last.timestamp and first.offset < last.offset)
        if first.offset < self.base_offset or not in_order:
            raise CorruptIndexError(f"{self.path}: entries from {first} to {last}")
        self.last_entry = last

    def entry(self, slot: int) -> TimestampOffset:
        buffer, at = self._entries.entry(slot)
        timestamp, relative = ENTRY.unpack_from(buffer, at)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if it has news: a larger timestamp than the last one."""
        if timestamp <= self.last_entry.timestamp:
            return
        self._entries.append(ENTRY.pack(timestamp, offset - self.base_offset))
        self.last_entry = TimestampOffset(timestamp, offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry with a timestamp <= `timestamp`; everything up to its offset is older or equal. Or the segment's start."""
        low, high = 0, self._entries.count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle).timestamp <= timestamp:
                low = middle + 1
            else:
                high = middle
        return self.entry(low - 1) if low else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        low, high = 0, self._entries.count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle).offset < offset:
                low = middle + 1
            else:
                high = middle
        self._entries.truncate(low)
        self.last_entry = self.entry(low - 1) if low else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def reset(self) -> None:
        """Drop everything, on disk too."""
        self._entries.filesystem.create_empty(self.path)
        self._entries.load()
        self.last_entry = TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def write(self) -> None:
        """Bring the entries into the file, not yet durable."""
        self._entries.write()

    def release(self) -> None:
        """Let go of the map."""
        self._entries.release()
