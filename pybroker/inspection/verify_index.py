"""Compares the indexes of a segment with its batches, while these pass by.

Which entries are right
    An offset index names the position where a batch begins, and an offset that is the first or the last of that batch
    or of a later one: Kafka's followers and its cleaner write several batches at once and give them one entry, and
    Kafka before 0.10 noted the first offset. A time index names the largest timestamp up to a batch, and an offset of
    that batch.

Entries that are out of order are reported, and not compared with the batches. Entries that point into damage are
not reported: the damage is.

Source: DumpLogSegments.{dumpIndex, dumpTimeIndex, dumpTxnIndex} of Kafka.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from pybroker.inspection.entries import IndexEntry, bytes_left_over, offset_entries, time_entries, transaction_entries
from pybroker.log.indexes import offset_index, time_index, transaction_index
from pybroker.records.batch import BatchView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.inspection.batches import Batch, Gap
    from pybroker.inspection.data_file import DataFile
    from pybroker.inspection.findings import Findings
    from pybroker.log.indexes.transaction_index import AbortedTransaction
    from pybroker.model import Offset

WAITING_MAX: Final = 1000


class OffsetIndexCheck:
    """The entries of an offset index, each compared with the batch at its position."""

    def __init__(self, findings: Findings, file: DataFile, base_offset: Offset) -> None:
        self._findings, self._path = findings, file.path
        _report_rest(findings, file, entry_bytes=offset_index.ENTRY.size, rest=bytes_left_over(file, offset_index.ENTRY))
        self._entries = _in_order(findings, file, offset_entries(file, base_offset), base_offset)
        self._next = next(self._entries, None)
        self._waiting: deque[IndexEntry] = deque()  # entries whose offset is to come

    def feed(self, batch: Batch, base_offset: Offset) -> None:
        """Compare the entries at the batch, which begins at `base_offset`."""
        while (entry := self._next) is not None and entry.value < batch.position:
            self._add(entry, f"points to byte {entry.value}, where no batch begins")
            self._next = next(self._entries, None)
        if entry is not None and entry.value == batch.position:
            if entry.offset < base_offset:
                self._add(entry, f"points to byte {entry.value}, where the batch begins at offset {base_offset}")
            elif len(self._waiting) < WAITING_MAX:
                self._waiting.append(entry)
            else:
                self._add(entry, f"points to byte {entry.value}, far before its offset")
            self._next = next(self._entries, None)
        while self._waiting and self._waiting[0].offset <= batch.last_offset:
            waiting = self._waiting.popleft()
            if waiting.offset not in {base_offset, batch.base_offset, batch.last_offset}:
                self._add(waiting, "has an offset at which no batch begins or ends")

    def skip(self, gap: Gap) -> None:
        """Pass over the entries that point into damage, and those whose offsets may lie in it."""
        while self._next is not None and self._next.value < gap.end:
            self._next = next(self._entries, None)
        self._waiting.clear()

    def finish(self, file: DataFile, next_offset: Offset) -> None:
        """Report the entries after the last batch; those of batches that were appended meanwhile are right."""
        if file.grow():
            return
        for one in self._waiting:
            self._add(one, f"has an offset that the segment does not reach: it ends at {next_offset}")
        while (entry := self._next) is not None:
            inside = "where no batch begins" if entry.value < file.size else f"but the log has {file.size} bytes"
            self._add(entry, f"points to byte {entry.value}, {inside}")
            self._next = next(self._entries, None)

    def _add(self, entry: IndexEntry, text: str) -> None:
        self._findings.add(self._path, "index", f"the entry {text}", position=entry.at, offset=entry.offset)


class TimeIndexCheck:
    """The entries of a time index, each compared with the largest timestamp up to its offset."""

    def __init__(self, findings: Findings, file: DataFile, base_offset: Offset) -> None:
        self._findings, self._path = findings, file.path
        _report_rest(findings, file, entry_bytes=time_index.ENTRY.size, rest=bytes_left_over(file, time_index.ENTRY))
        self._entries = _in_order(findings, file, time_entries(file, base_offset), base_offset)
        self._next = next(self._entries, None)
        self._newest = -1

    def feed(self, batch: Batch, base_offset: Offset) -> None:
        """Compare the entries up to the batch, which begins at `base_offset`."""
        self._newest = max(self._newest, batch.max_timestamp)
        while (entry := self._next) is not None and entry.offset <= batch.last_offset:
            if entry.offset < base_offset:
                self._add(entry, "has an offset of no batch")
            elif entry.value != self._newest or entry.value != batch.max_timestamp:
                self._add(
                    entry,
                    f"has the timestamp {entry.value}; the batch at its offset has {batch.max_timestamp}, "
                    f"and the largest up to there is {self._newest}",
                )
            self._next = next(self._entries, None)

    def skip(self, next_offset: Offset | None) -> None:
        """Pass over the entries before `next_offset`, where damage ends; None: over all."""
        while self._next is not None and (next_offset is None or self._next.offset < next_offset):
            self._newest = max(self._newest, self._next.value)
            self._next = next(self._entries, None)

    def finish(self, file: DataFile, next_offset: Offset) -> None:
        """Report the entries after the last batch; those of batches that were appended meanwhile are right."""
        if file.grow():
            return
        while (entry := self._next) is not None:
            self._add(entry, f"has an offset that the segment does not reach: it ends at {next_offset}")
            self._next = next(self._entries, None)

    def _add(self, entry: IndexEntry, text: str) -> None:
        self._findings.add(self._path, "time index", f"the entry {text}", position=entry.at, offset=entry.offset)


class TransactionIndexCheck:
    """The aborted transactions of a segment, each compared with the marker at its last offset."""

    def __init__(self, findings: Findings, file: DataFile, base_offset: Offset) -> None:
        self._findings, self._path, self._base_offset = findings, file.path, base_offset
        _report_rest(
            findings, file, entry_bytes=transaction_index.ENTRY.size, rest=bytes_left_over(file, transaction_index.ENTRY)
        )
        self._entries = self._sound(transaction_entries(file))
        self._next = next(self._entries, None)

    def _sound(self, found: Iterator[tuple[int, int, AbortedTransaction]]) -> Iterator[tuple[int, AbortedTransaction]]:
        previous = self._base_offset - 1
        for at, version, one in found:
            if version != transaction_index.VERSION:
                self._add(at, one, f"has the unknown version {version}")
            elif not 0 <= one.first_offset <= one.last_offset or one.producer_id < 0:
                self._add(at, one, f"is of producer {one.producer_id}, from offset {one.first_offset} to {one.last_offset}")
            elif one.last_offset <= previous:
                self._add(at, one, f"ends at offset {one.last_offset}, where it must be after {previous}")
            elif not 0 <= one.last_stable_offset <= one.last_offset + 1:
                self._add(at, one, f"has the last stable offset {one.last_stable_offset}")
            else:
                previous = one.last_offset
                self._findings.counts["aborted transactions"] += 1
                yield at, one

    def feed(self, batch: Batch) -> None:
        """Compare the entries up to the batch."""
        while self._next is not None and self._next[1].last_offset <= batch.last_offset:
            at, one = self._next
            view = batch.view
            if not (
                isinstance(view, BatchView)
                and view.is_control
                and batch.last_offset == one.last_offset
                and view.producer_id == one.producer_id
            ):
                self._add(at, one, f"has no marker of producer {one.producer_id} at offset {one.last_offset}")
            self._next = next(self._entries, None)

    def skip(self, next_offset: Offset | None) -> None:
        """Pass over the entries before `next_offset`, where damage ends; None: over all."""
        while self._next is not None and (next_offset is None or self._next[1].last_offset < next_offset):
            self._next = next(self._entries, None)

    def finish(self, file: DataFile, next_offset: Offset) -> None:
        """Report the entries after the last batch; those of batches that were appended meanwhile are right."""
        if file.grow():
            return
        while self._next is not None:
            at, one = self._next
            self._add(at, one, f"ends at offset {one.last_offset}, but the segment ends at {next_offset}")
            self._next = next(self._entries, None)

    def _add(self, at: int, one: AbortedTransaction, text: str) -> None:
        text = f"the aborted transaction {text}"
        self._findings.add(self._path, "transaction index", text, position=at, offset=one.last_offset)


def _in_order(findings: Findings, file: DataFile, entries: Iterator[IndexEntry], base_offset: Offset) -> Iterator[IndexEntry]:
    """Yield the entries that continue the order of both columns."""
    previous: IndexEntry | None = None
    for entry in entries:
        findings.counts["index entries"] += 1
        if entry.offset < base_offset or entry.value < 0:
            findings.add(
                file.path, "index order", f"the entry has the value {entry.value}", position=entry.at, offset=entry.offset
            )
        elif previous is not None and (entry.offset <= previous.offset or entry.value <= previous.value):
            findings.add(
                file.path,
                "index order",
                f"the entry has the value {entry.value}, after the value {previous.value} at offset {previous.offset}",
                position=entry.at,
                offset=entry.offset,
            )
        else:
            previous = entry
            yield entry


def _report_rest(findings: Findings, file: DataFile, *, entry_bytes: int, rest: int) -> None:
    if rest:
        text = f"{file.size} bytes are not a multiple of {entry_bytes}, the size of an entry"
        findings.add(file.path, "index length", text, position=file.size - rest)
