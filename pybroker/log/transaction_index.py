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
from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.log.entry_file import CorruptIndexError
from pybroker.log.filesystem import SHORTAGES

if TYPE_CHECKING:
    from collections.abc import Container

    from pybroker.log.filesystem import Filesystem
    from pybroker.model import Offset, ProducerId

ENTRY: Final = struct.Struct(">hqqqq")
assert ENTRY.size == 34
VERSION: Final = 0
_LAST_OFFSET: Final = attrgetter("last_offset")


class AbortedTransaction(NamedTuple):
    """One entry, without its version."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class TransactionIndex:
    """One segment's aborted transactions. They are few, and are kept in memory after the first use.

    An entry is written at once. If there is no descriptor to write with, it is written with the next entry, or by
    `write`.
    """

    __slots__ = ("_entries", "_filesystem", "_written", "base_offset", "path")

    def __init__(self, filesystem: Filesystem, path: str, base_offset: Offset) -> None:
        self._filesystem = filesystem
        self.path = path
        self.base_offset = base_offset
        self._entries: list[AbortedTransaction] | None = None
        self._written = 0  # how many of `_entries` are in the file

    @property
    def entries(self) -> list[AbortedTransaction]:
        """Return all entries.

        Raises CorruptIndexError for an entry of another version or of an earlier segment; a torn tail is dropped.
        """
        if self._entries is None:
            data = self._filesystem.read_file(self.path) if self._filesystem.exists(self.path) else b""
            entries = []
            for position in range(0, len(data) - ENTRY.size + 1, ENTRY.size):
                version, *values = ENTRY.unpack_from(data, position)
                entry = AbortedTransaction(*values)
                if version != VERSION or entry.last_offset < self.base_offset:
                    raise CorruptIndexError(f"{self.path}: version {version}, {entry}")
                entries.append(entry)
            self._entries, self._written = entries, len(entries)
        return self._entries

    def load(self) -> None:
        """Load the entries into memory. Raises OSError, CorruptIndexError."""
        _ = self.entries

    def append(self, entry: AbortedTransaction) -> None:
        """Add an entry; last offsets must grow."""
        entries = self.entries
        if entries and entries[-1].last_offset >= entry.last_offset:
            raise CorruptIndexError(f"{self.path}: {entry} after {entries[-1]}")
        entries.append(entry)
        try:
            self.write()
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise

    def write(self) -> None:
        """Write the missing entries to the file, without making them durable. Raises OSError."""
        entries, written = self._entries, self._written
        if entries is None or len(entries) == written:
            return
        fd = self._filesystem.open(self.path, writable=True, create=True)
        try:
            data = b"".join(ENTRY.pack(VERSION, *entry) for entry in entries[written:])
            self._filesystem.write_fully(fd, data, written * ENTRY.size)
        finally:
            self._filesystem.close(fd)
        self._written = len(entries)

    def collect(self, *, fetch_offset: Offset, upper_offset: Offset) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions that touch [fetch_offset, upper_offset), and whether later segments cannot have more."""
        found: list[AbortedTransaction] = []
        entries = self.entries
        for index in range(bisect_left(entries, fetch_offset, key=_LAST_OFFSET), len(entries)):
            entry = entries[index]
            if entry.first_offset < upper_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: Offset) -> None:
        """Drop the transactions whose markers are at or above `offset`."""
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) < len(self.entries):
            written = min(len(kept), self._written)
            if written < self._written:
                fd = self._filesystem.open(self.path, writable=True)
                try:
                    self._filesystem.truncate(fd, written * ENTRY.size)
                finally:
                    self._filesystem.close(fd)
            self._entries, self._written = kept, written

    def keep(self, last_offsets: Container[Offset]) -> None:
        """Drop the transactions whose markers are not at one of these offsets, durably. Blocks."""
        kept = [entry for entry in self.entries if entry.last_offset in last_offsets]
        if len(kept) < len(self.entries):
            self._filesystem.replace_file(self.path, b"".join(ENTRY.pack(VERSION, *entry) for entry in kept), sync=True)
            self._entries, self._written = kept, len(kept)

    def reset(self) -> None:
        """Drop everything, the file too."""
        self._filesystem.remove(self.path)
        self._entries, self._written = [], 0
