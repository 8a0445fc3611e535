"""A sorted file of fixed-size entries, appended to at its end: what the offset and the time index have in common.

Idea
    An index is derived from the data file and rebuilt when it is lost, so its entries need not reach the file one by one: they
    gather in memory and are written some hundred at a time, before a flush, a roll and a close. No descriptor stays open. Lookups
    search a map of the written entries and the tail in memory as one sequence.

Kafka preallocates these files (10 MB of holes for each active segment) and trims them later; ours grow. Kafka opens both.

Source: org.apache.kafka.storage.internals.log.AbstractIndex.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import mmap
    import struct

    from pybroker.log.filesystem import Filesystem

TAIL_BYTES_MAX: Final = 4096


class CorruptIndexError(Exception):
    """The index contradicts itself or its data file; rebuild it from the data."""


class EntryFile:
    """The bytes of an index, whose first field grows from entry to entry.

    `count` includes entries not yet written. From `count_max` of them on the next append must go to a new segment.
    """

    __slots__ = ("_map", "_tail", "_written", "count", "count_max", "entry_size", "filesystem", "layout", "path")

    def __init__(self, filesystem: Filesystem, path: str, layout: struct.Struct, count_max: int) -> None:
        self.filesystem = filesystem
        self.path = path
        self.layout = layout
        self.entry_size = layout.size
        self._written = 0  # entries in the file
        self._tail = bytearray()
        self._map: mmap.mmap | None = None
        self.count = 0
        self.count_max = count_max

    def load_entries(self) -> None:
        """Take the file as it is. Raises FileNotFoundError, and CorruptIndexError for a torn last entry."""
        size = self.filesystem.file_size(self.path)
        if size % self.entry_size:
            raise CorruptIndexError(f"{self.path}: {size} bytes are no multiple of {self.entry_size}")
        self._written = self.count = size // self.entry_size
        self._tail = bytearray()
        self._map = None

    def append_entry(self, entry: bytes) -> None:
        """Add an entry; it is written with the others."""
        self._tail += entry
        self.count += 1
        if len(self._tail) >= TAIL_BYTES_MAX:
            self.write()

    def write(self) -> None:
        """Bring the gathered entries into the file, not yet durable."""
        if not self._tail:
            return
        fd = self.filesystem.open(self.path, writable=True, create=True)
        try:
            self.filesystem.write_fully(fd, self._tail, self._written * self.entry_size)
        finally:
            self.filesystem.close(fd)
        self._written = self.count
        self._tail.clear()

    def fields(self, slot: int) -> tuple[int, ...]:
        """The fields of one entry."""
        if slot >= self._written:
            return self.layout.unpack_from(self._tail, (slot - self._written) * self.entry_size)
        return self.layout.unpack_from(self._mapped(), slot * self.entry_size)

    def floor_slot(self, key: int) -> int:
        """The last entry whose first field is <= `key`; -1 when there is none."""
        unpack, size, written = self.layout.unpack_from, self.entry_size, self._written
        if self._tail and unpack(self._tail)[0] <= key:
            buffer: mmap.mmap | bytearray = self._tail
            low, high, base = 1, len(self._tail) // size, written
        elif written:
            buffer = self._mapped()
            low, high, base = 0, written, 0
        else:
            return -1
        while low < high:
            middle = (low + high) // 2
            if unpack(buffer, middle * size)[0] <= key:
                low = middle + 1
            else:
                high = middle
        return base + low - 1

    def _mapped(self) -> mmap.mmap:
        if self._map is None or len(self._map) < self._written * self.entry_size:
            fd = self.filesystem.open(self.path, writable=False)
            try:
                self._map = self.filesystem.map(fd, self._written * self.entry_size)
            finally:
                self.filesystem.close(fd)
        return self._map

    def truncate_entries(self, count: int) -> None:
        """Keep the first `count` entries."""
        if count >= self.count:
            return
        if count >= self._written:
            del self._tail[(count - self._written) * self.entry_size :]
        else:
            self._tail.clear()
            self._map = None  # nobody else looks into it
            fd = self.filesystem.open(self.path, writable=True, create=True)
            try:
                self.filesystem.truncate(fd, count * self.entry_size)
            finally:
                self.filesystem.close(fd)
            self._written = count
        self.count = count

    def clear_entries(self) -> None:
        """Drop everything, on disk too."""
        self.filesystem.create_empty(self.path)
        self.load_entries()

    def release(self) -> None:
        """Let go of the map; the next lookup makes it again."""
        self._map = None
