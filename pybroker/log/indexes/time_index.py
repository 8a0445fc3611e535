"""The sparse map from timestamps to offsets, `<base offset>.timeindex`.

    field            bytes  meaning
    timestamp        8      ms; the largest timestamp in the segment up to and with the batch
    relative offset  4      last offset of the batch that has this timestamp, minus the segment's base offset

Both columns grow. The entry with the segment's largest timestamp is added when the segment is rolled or closed, so the last
entry gives retention the age of the segment.

Source: org.apache.kafka.storage.internals.log.TimeIndex.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.log.indexes.entry_file import CorruptIndexError, EntryFile, NotInMemoryError

if TYPE_CHECKING:
    from pybroker.log.files.filesystem import Filesystem
    from pybroker.model import Offset

ENTRY: Final = struct.Struct(">qi")
assert ENTRY.size == 12
NO_TIMESTAMP: Final = -1


class TimestampOffset(NamedTuple):
    """The largest timestamp so far, in ms, and the last offset of the batch that has it."""

    timestamp: int
    offset: Offset


class TimeIndex(EntryFile):
    """One segment's index; in memory until `write`."""

    __slots__ = ("base_offset", "last_entry")

    def __init__(self, filesystem: Filesystem, path: str, *, base_offset: Offset, bytes_max: int) -> None:
        super().__init__(filesystem, path, ENTRY, bytes_max // ENTRY.size - 1)  # one slot is kept for the entry of the roll
        self.base_offset = base_offset
        self.last_entry = TimestampOffset(NO_TIMESTAMP, base_offset)

    def load(self) -> None:
        """Read the file. Raises FileNotFoundError, CorruptIndexError."""
        self.load_entries()
        count = self.count
        while count > 1 and self.entry(count - 1) == (0, self.base_offset):
            count -= 1  # holes at the end of a file that Kafka preallocated
        self.truncate_entries(count)
        self.last_entry = self._entry_before(count)
        if count:
            first, last = self.entry(0), self.last_entry
            is_in_order = count == 1 or (first.timestamp < last.timestamp and first.offset < last.offset)
            if first.offset < self.base_offset or not is_in_order:
                raise CorruptIndexError(f"{self.path}: entries from {first} to {last}")

    def entry(self, slot: int) -> TimestampOffset:
        """Return one entry, with its offset made absolute."""
        timestamp, relative = self.fields(slot)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def _entry_before(self, slot: int) -> TimestampOffset:
        return self.entry(slot - 1) if slot else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def maybe_append(self, timestamp: int, offset: Offset) -> None:
        """Add an entry if its timestamp is larger than the last one."""
        if timestamp > self.last_entry.timestamp:
            self.append_entry(ENTRY.pack(timestamp, offset - self.base_offset))
            self.last_entry = TimestampOffset(timestamp, offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry with a timestamp <= `timestamp`, or the segment's start.

        Everything up to its offset is older or equal.
        """
        timestamp, relative = self.floor_fields(timestamp) or (NO_TIMESTAMP, 0)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def offset_in_memory(self, timestamp: int) -> Offset | None:
        """Return the offset of what `lookup` finds; None if the file must be read first."""
        self.may_read = False
        try:
            return self.lookup(timestamp).offset
        except NotInMemoryError:
            return None
        finally:
            self.may_read = True

    def truncate_to(self, offset: Offset) -> int:
        """Drop the entries at or above `offset`. Returns how many are left."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle).offset < offset:
                low = middle + 1
            else:
                high = middle
        self.truncate_entries(low)
        self.last_entry = self._entry_before(low)
        return self.count

    def reset(self) -> None:
        """Drop everything, also on disk."""
        self.clear_entries()
        self.last_entry = TimestampOffset(NO_TIMESTAMP, self.base_offset)
