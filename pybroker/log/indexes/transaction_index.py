"""The aborted transactions of a segment, `<base offset>.txnindex`; there is no file until the first one.

    field               bytes  meaning
    version             2      0
    producer id         8
    first offset        8      of the transaction's data, maybe in an earlier segment
    last offset         8      of its abort marker, in this segment
    last stable offset  8      below it nothing was undecided when the marker was written

Entries are in order of their last offset. A read-committed reader of [a, b) needs those with last >= a and first < b, and may
stop at an entry whose last stable offset is >= b: transactions that are noted later began at or after that.

Source: org.apache.kafka.storage.internals.log.{TransactionIndex, AbortedTxn}.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.log.files.filesystem import SHORTAGES
from pybroker.log.indexes.entry_file import CorruptIndexError, EntryFile, NotInMemoryError
from pybroker.model import FIRST_OFFSET, NO_OFFSET, OFFSET_END, Offset

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Sequence

    from pybroker.log.files.filesystem import Filesystem
    from pybroker.model import ProducerId

ENTRY: Final = struct.Struct(">hqqqq")
assert ENTRY.size == 34
VERSION: Final = 0
_ORDER: Final = struct.Struct(">2x8x8xq8x")
"""The field of an entry by which entries are in order: the last offset."""
assert _ORDER.size == ENTRY.size


class AbortedTransaction(NamedTuple):
    """One entry, without its version."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class TransactionIndex(EntryFile):
    """One segment's aborted transactions. The file is looked into at the first use, and read in windows as they are needed.

    An entry is written at once. If there is no descriptor to write with, it is written with the next entry, or by
    `write`.
    """

    __slots__ = ("_is_loaded", "_last_offset", "base_offset")

    def __init__(self, filesystem: Filesystem, path: str, base_offset: Offset) -> None:
        super().__init__(filesystem, path, _ORDER, sys.maxsize)
        self.base_offset = base_offset
        self._is_loaded = False
        self._last_offset = NO_OFFSET  # of the last entry

    def load(self) -> None:
        """Look into the file: how many entries it has, and whether its ends can be true. A torn tail is dropped.

        Raises OSError; CorruptIndexError for an entry of another version, of an earlier segment or out of order, as every
        method does for those that it meets.
        """
        if self._is_loaded:
            return
        if not self.may_read:
            raise NotInMemoryError
        try:
            size = self.filesystem.file_size(self.path)
        except FileNotFoundError:
            size = 0
        self._written = self.count = size // ENTRY.size
        self._tail = bytearray()
        self.release()
        if self.count:
            self.fields(0)
            self._last_offset = Offset(self.fields(self.count - 1)[0])
        self._is_loaded = True

    def note_missing(self) -> None:
        """Note that there is no file, so that nothing looks for it."""
        self._is_loaded = True

    def size_in_file(self) -> int:
        """Return the bytes of the file, without reading it. Raises OSError."""
        if self._is_loaded:
            return self._written * ENTRY.size
        try:
            return self.filesystem.file_size(self.path)
        except FileNotFoundError:
            return 0

    @property
    def is_loaded(self) -> bool:
        """Whether `load` has looked into the file."""
        return self._is_loaded

    @property
    def entries(self) -> list[AbortedTransaction]:
        """All entries."""
        return [one for piece in self.collect(fetch_offset=FIRST_OFFSET, upper_offset=OFFSET_END) for one in piece]

    def gather(self, entry: AbortedTransaction) -> None:
        """Add an entry that is written with others, or by `write`; last offsets must grow."""
        self.load()
        if self.count and self._last_offset >= entry.last_offset:
            raise CorruptIndexError(f"{self.path}: {entry} after one that ends at {self._last_offset}")
        self._last_offset = entry.last_offset
        self.append_entry(ENTRY.pack(VERSION, *entry))

    def append(self, entry: AbortedTransaction) -> None:
        """Add an entry, and write it; last offsets must grow."""
        self.gather(entry)
        try:
            self.write()
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise

    def collect(self, *, fetch_offset: Offset, upper_offset: Offset) -> Generator[list[AbortedTransaction], None, bool]:
        """Yield the transactions that touch [fetch_offset, upper_offset), a window at a time; return whether later segments
        cannot have more.
        """
        self.load()
        if not self.count or self._last_offset < fetch_offset:
            return False
        slot = self.floor_slot(fetch_offset - 1) + 1
        while slot < self.count:
            piece = self._entries_from(slot)
            found: list[AbortedTransaction] = []
            for _, producer_id, first_offset, last_offset, last_stable_offset in ENTRY.iter_unpack(piece):
                if first_offset < upper_offset:
                    found.append(AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset))
                if last_stable_offset >= upper_offset:
                    yield found
                    return True
            yield found
            slot += len(piece) // ENTRY.size
        return False

    def _entries_from(self, slot: int) -> bytes | bytearray | memoryview:
        """Return the entries of a window from a slot on; those in memory are one window."""
        if slot >= self._written:
            return bytes(memoryview(self._tail)[(slot - self._written) * ENTRY.size :])
        number, at = divmod(slot, self._window_entries)
        window = self._windows.get(number) or self._read(number)
        return memoryview(window)[at * ENTRY.size :] if at else window

    def _read(self, number: int) -> bytes:
        """Return the written entries of a window, checked. Raises OSError, CorruptIndexError."""
        window = super()._read(number)
        before = self.base_offset - 1
        for version, _, _, last_offset, _ in ENTRY.iter_unpack(window):
            if version != VERSION or last_offset <= before:
                self.release()
                raise CorruptIndexError(f"{self.path}: version {version}, last offset {last_offset} after {before}")
            before = last_offset
        return window

    def truncate_to(self, offset: Offset) -> None:
        """Drop the transactions whose markers are at or above `offset`."""
        self.load()
        if self.count:
            self.truncate_entries(self.floor_slot(offset - 1) + 1)
            self._last_offset = Offset(self.fields(self.count - 1)[0]) if self.count else NO_OFFSET

    def keep(self, last_offsets: Container[Offset]) -> None:
        """Drop the transactions whose markers are not at one of these offsets, durably. Blocks."""
        kept = [entry for entry in self.entries if entry.last_offset in last_offsets]
        if len(kept) < self.count:
            self.replace(kept)

    def replace(self, entries: Sequence[AbortedTransaction]) -> None:
        """Replace the file by one of these entries, durably. Blocks. Raises OSError."""
        self.filesystem.replace_file(self.path, b"".join(ENTRY.pack(VERSION, *entry) for entry in entries), sync=True)
        self._is_loaded = False
        self.load()

    def reset(self) -> None:
        """Drop everything, the file too."""
        self.filesystem.remove(self.path)
        self.release()
        self._tail = bytearray()
        self._written = self.count = 0
        self._is_loaded = True
