"""The sparse map from offsets to file positions, `<base offset>.index`.

    field            bytes  meaning
    relative offset  4      last offset of a batch, minus the segment's base offset
    position         4      where that batch begins in the data file

An entry follows about every `index.interval.bytes` of data, never the first batch of a segment. `lookup` returns the last batch
that is known to end at or before the target, and the reader walks the batch headers from there.

Source: org.apache.kafka.storage.internals.log.OffsetIndex.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.log.indexes.entry_file import CorruptIndexError, EntryFile, NotInMemoryError

if TYPE_CHECKING:
    from pybroker.log.files.filesystem import Filesystem
    from pybroker.model import Offset

ENTRY: Final = struct.Struct(">ii")
assert ENTRY.size == 8


class OffsetPosition(NamedTuple):
    """The position where the batch with the last offset `offset` begins."""

    offset: Offset
    position: int


class OffsetIndex(EntryFile):
    """One segment's index; in memory until `write`."""

    __slots__ = ("base_offset", "last_offset")

    def __init__(self, filesystem: Filesystem, path: str, *, base_offset: Offset, bytes_max: int) -> None:
        super().__init__(filesystem, path, ENTRY, bytes_max // ENTRY.size)
        self.base_offset = base_offset
        self.last_offset = base_offset

    def load(self, data_size: int) -> None:
        """Read the file.

        Raises FileNotFoundError; CorruptIndexError if its ends cannot be true for `data_size` bytes of data.
        """
        self.load_entries()
        count = self.count
        while count > 1 and self.entry(count - 1) == (self.base_offset, 0):
            count -= 1  # holes at the end of a file that Kafka preallocated
        self.truncate_entries(count)
        if not count:
            self.last_offset = self.base_offset
            return
        first, last = self.entry(0), self.entry(count - 1)
        is_in_order = count == 1 or (first.offset < last.offset and first.position < last.position)
        if first.offset < self.base_offset or first.position < 0 or last.position >= data_size or not is_in_order:
            raise CorruptIndexError(f"{self.path}: entries from {first} to {last} do not fit {data_size} bytes of data")
        self.last_offset = last.offset

    def entry(self, slot: int) -> OffsetPosition:
        """Return one entry, with its offset made absolute."""
        relative, position = self.fields(slot)
        return OffsetPosition(self.base_offset + relative, position)

    def append(self, offset: Offset, position: int) -> None:
        """Add an entry; offsets and positions must grow."""
        if offset <= self.last_offset and self.count:
            raise CorruptIndexError(f"{self.path}: offset {offset} after {self.last_offset}")
        self.append_entry(ENTRY.pack(offset - self.base_offset, position))
        self.last_offset = offset

    def lookup(self, offset: Offset) -> tuple[Offset, int]:
        """Return offset and position of the last entry with an offset <= `offset`, or of the segment's start."""
        if offset >= self.last_offset and self.count:
            found: tuple[int, ...] | None = self.fields(self.count - 1)
        else:
            found = self.floor_fields(offset - self.base_offset)
        return (self.base_offset + found[0], found[1]) if found is not None else (self.base_offset, 0)

    def places_in_memory(self, offset: Offset) -> tuple[int, int] | None:
        """Return the positions between which `lookup` and a walk from there find `offset`; None if that must be read first."""
        self.may_read = False
        try:
            slot = self.floor_slot(offset - self.base_offset)
            begin = self.fields(slot)[1] if slot >= 0 else 0
            return begin, self.fields(slot + 1)[1] if slot + 1 < self.count else begin
        except NotInMemoryError:
            return None
        finally:
            self.may_read = True

    def offset_behind(self, offset: Offset, position: int) -> Offset | None:
        """Return an offset that no batch from the one of `offset` on reaches which begins before `position`; None if the index
        knows none. The entries that it reads are near each other where the two are.
        """
        slot, step = max(self.floor_slot(offset - self.base_offset), 0), 1
        while slot + step < self.count and self.fields(slot + step)[1] < position:
            slot, step = slot + step, 2 * step
        slot = self._slot_from(position, low=slot, high=min(slot + step, self.count))
        return self.entry(slot).offset if slot < self.count else None

    def position_before(self, position: int) -> int:
        """Return the last position in the index that is <= `position`, or 0, the segment's start."""
        slot = self._slot_from(position + 1, low=0, high=self.count)
        return self.entry(slot - 1).position if slot else 0

    def _slot_from(self, position: int, *, low: int, high: int) -> int:
        """Return the first slot from `low` to `high` whose entry is at `position` or behind it; `high` if there is none."""
        return bisect_left(range(high), position, low, high, key=lambda slot: self.fields(slot)[1])

    def truncate_to(self, offset: Offset) -> int:
        """Drop the entries at or above `offset`. Returns how many are left."""
        slot = self.floor_slot(offset - 1 - self.base_offset)
        self.truncate_entries(slot + 1)
        self.last_offset = self.entry(slot).offset if slot >= 0 else self.base_offset
        return self.count

    def reset(self) -> None:
        """Drop everything, also on disk."""
        self.clear_entries()
        self.last_offset = self.base_offset
