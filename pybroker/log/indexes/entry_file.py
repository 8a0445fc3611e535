"""A sorted file of fixed-size entries, appended to at its end: the common part of the three indexes.

Idea
    An index is derived from the data file and rebuilt if it is lost, so its entries need not reach the file one by one. They
    gather in memory. Some hundred at a time are written, and all of them before a flush, a roll and a close. Lookups search the
    written entries and the tail in memory as one sequence. The transaction index is not derived, so it writes each entry at
    once.

Reading
    Windows of 4 kB are read when a search reaches them, and the youngest 4 MB of windows of all indexes together are kept in
    memory. No descriptor stays open between two reads, and nothing is mapped. A page that the disk cannot read is an OSError of
    that read; in a map it would end the process. A file that has become shorter than what was written, or is missing, is
    reported as a CorruptIndexError, and the index is rebuilt from the data. Kafka preallocates these files (10 MB of holes for
    each active segment), maps them, and trims them later; ours grow.

Source: org.apache.kafka.storage.internals.log.AbstractIndex.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from pybroker.log.files.filesystem import SHORTAGES

if TYPE_CHECKING:
    import struct

    from pybroker.log.files.filesystem import Filesystem

TAIL_BYTES_MAX: Final = 4096
WINDOW_BYTES: Final = 4096
WINDOWS_MAX: Final = 1024


class CorruptIndexError(Exception):
    """The index contradicts itself or its data file; rebuild it from the data."""


_YOUNGEST: Final[deque[tuple[dict[int, bytes], int]]] = deque()
"""The windows of all indexes of the process as they were read, oldest first: the index's windows, and the number.

Any thread may use it: each step is one call that cannot be interrupted.
"""


class NotInMemoryError(Exception):
    """A search would have to read the file."""


class EntryFile:
    """The bytes of an index, whose first field grows from entry to entry.

    `count` includes entries that are not written yet. From `count_max` entries on, the next append must use a new
    segment.
    """

    __slots__ = (
        "_tail",
        "_window_entries",
        "_windows",
        "_written",
        "count",
        "count_max",
        "entry_size",
        "filesystem",
        "layout",
        "may_read",
        "path",
    )

    def __init__(self, filesystem: Filesystem, path: str, layout: struct.Struct, count_max: int) -> None:
        self.filesystem = filesystem
        self.path = path
        self.layout = layout
        self.entry_size = layout.size
        self._window_entries = WINDOW_BYTES // layout.size
        self._written = 0  # the number of entries in the file
        self._tail = bytearray()
        self._windows: dict[int, bytes] = {}  # the parts of the file that were read, by the window's number
        self.may_read = True  # whether windows are read when they are needed; otherwise a search raises NotInMemoryError
        self.count = 0
        self.count_max = count_max

    def load_entries(self) -> None:
        """Accept the file as it is. Raises FileNotFoundError, and CorruptIndexError for a torn last entry."""
        size = self.filesystem.file_size(self.path)
        if size % self.entry_size:
            raise CorruptIndexError(f"{self.path}: {size} bytes are not a multiple of {self.entry_size}")
        self._written = self.count = size // self.entry_size
        self._tail = bytearray()
        self.release()

    def append_entry(self, entry: bytes) -> None:
        """Add an entry; it is written with others. While no descriptor is left to write with, it stays in memory."""
        self._tail += entry
        self.count += 1
        if len(self._tail) >= TAIL_BYTES_MAX:
            try:
                self.write()
            except OSError as error:
                if error.errno not in SHORTAGES:
                    raise

    def write(self) -> None:
        """Write the gathered entries to the file, without making them durable."""
        if not self._tail:
            return
        fd = self.filesystem.open(self.path, writable=True, create=True)
        try:
            self.filesystem.write_fully(fd, self._tail, self._written * self.entry_size)
        finally:
            self.filesystem.close(fd)
        self._windows.pop(self._written // self._window_entries, None)  # it has more entries now
        self._written = self.count
        self._tail.clear()

    def fields(self, slot: int) -> tuple[int, ...]:
        """Return the fields of one entry."""
        if slot >= self._written:
            return self.layout.unpack_from(self._tail, (slot - self._written) * self.entry_size)
        number, at = divmod(slot, self._window_entries)
        return self.layout.unpack_from(self._windows.get(number) or self._read(number), at * self.entry_size)

    def floor_slot(self, key: int) -> int:
        """Return the slot of the last entry whose first field is <= `key`; -1 if there is none."""
        return self._find_floor(key)[0]

    def floor_fields(self, key: int) -> tuple[int, ...] | None:
        """Return the fields of the last entry whose first field is <= `key`; None if there is none."""
        slot, entries, position = self._find_floor(key)
        return self.layout.unpack_from(entries, position) if slot >= 0 else None

    def _find_floor(self, key: int) -> tuple[int, bytes | bytearray, int]:
        """Return the slot of that entry (-1 if there is none), and where it is."""
        unpack, size, windows, base = self.layout.unpack_from, self.entry_size, self._windows, self._written
        entries: bytes | bytearray = self._tail
        if not entries or unpack(entries)[0] > key:
            # In the file: in the last window that does not begin after the key.
            low, high = 0, -(-base // self._window_entries)
            while low < high:
                middle = (low + high) // 2
                if unpack(windows.get(middle) or self._read(middle))[0] <= key:
                    low = middle + 1
                else:
                    high = middle
            if not low:
                return -1, entries, 0
            entries, base = windows.get(low - 1) or self._read(low - 1), (low - 1) * self._window_entries
        low, high = size, len(entries)
        while low < high:
            middle = (low + high) // 2
            middle -= middle % size
            if unpack(entries, middle)[0] <= key:
                low = middle + size
            else:
                high = middle
        return base + low // size - 1, entries, low - size

    def _read(self, number: int) -> bytes:
        """Return the written entries of a window. Raises OSError, and CorruptIndexError if the file has fewer."""
        if not self.may_read:
            raise NotInMemoryError
        first = number * self._window_entries
        length = min(self._written - first, self._window_entries) * self.entry_size
        try:
            fd = self.filesystem.open(self.path, writable=False)
        except FileNotFoundError as error:
            raise CorruptIndexError(f"{self.path} does not exist any more") from error
        try:
            window = self.filesystem.pread(fd, length, first * self.entry_size)
        finally:
            self.filesystem.close(fd)
        if len(window) < length:
            raise CorruptIndexError(f"{self.path} is shorter than the {self._written} entries that were written to it")
        self._windows[number] = window
        _YOUNGEST.append((self._windows, number))
        if len(_YOUNGEST) > WINDOWS_MAX:
            windows, oldest = _YOUNGEST.popleft()
            windows.pop(oldest, None)
        return window

    def truncate_entries(self, count: int) -> None:
        """Keep the first `count` entries."""
        if count >= self.count:
            return
        if count >= self._written:
            del self._tail[(count - self._written) * self.entry_size :]
        else:
            fd = self.filesystem.open(self.path, writable=True, create=True)
            try:
                self.filesystem.truncate(fd, count * self.entry_size)
            finally:
                self.filesystem.close(fd)
            self._tail.clear()
            self.release()
            self._written = count
        self.count = count

    def clear_entries(self) -> None:
        """Drop everything, also on disk."""
        self.filesystem.create_empty(self.path)
        self.load_entries()

    def release(self) -> None:
        """Forget the windows that were read; the next lookup reads them again."""
        self._windows.clear()
