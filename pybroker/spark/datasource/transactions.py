"""Finds which records a read-committed reader may see: where the open transactions begin, and which ones were aborted.

A producer snapshot has the state at some offset. From there on, this module reads the headers of batches, and the markers.
The `.txnindex` files have the aborted transactions whose markers lie before that offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pybroker.log.indexes.entry_file import CorruptIndexError
from pybroker.log.indexes.transaction_index import TransactionIndex
from pybroker.log.producers import producer_snapshot
from pybroker.model import NO_OFFSET, Offset, ProducerId
from pybroker.records.batch import MAGIC, BatchView
from pybroker.records.control import ControlType, control_type
from pybroker.records.errors import CorruptRecordError
from pybroker.spark.datasource.files import FILESYSTEM, CorruptSegmentError, Segment, SegmentLookup, walk
from pybroker.spark.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Generator

    from pybroker.log.indexes.transaction_index import AbortedTransaction
    from pybroker.log.segments.file_records import SegmentFile

AbortedRange = tuple[ProducerId, Offset, Offset]
"""The id of the producer, the first offset, and the offset of the marker."""


class TransactionState:
    """The transactions of a partition at `offset`. It can advance from there, so that a stream reads every header once."""

    __slots__ = ("aborted", "offset", "open")

    def __init__(self, offset: Offset, open_: dict[ProducerId, Offset] | None = None) -> None:
        self.offset = offset
        self.open = open_ or {}  # producer id -> first offset
        self.aborted: set[AbortedRange] = set()

    @classmethod
    def at_snapshot(
        cls, directory: str, offsets: Iterable[Offset], *, end_offset: Offset, start_offset: Offset
    ) -> TransactionState:
        """Return the state of the latest sound snapshot up to `end_offset`, or else of the start of the log."""
        for offset in sorted((one for one in offsets if start_offset <= one <= end_offset), reverse=True):
            try:
                entries = producer_snapshot.read(FILESYSTEM, producer_snapshot.path(directory, offset))
            except (producer_snapshot.CorruptSnapshotError, FileNotFoundError):
                continue
            open_ = {
                one.producer_id: one.transaction_first_offset for one in entries if one.transaction_first_offset != NO_OFFSET
            }
            return cls(offset, open_)
        return cls(start_offset)

    def stable_offset(self) -> Offset:
        """Return the offset below which every transaction is decided."""
        return min(self.open.values(), default=self.offset)

    def advance(self, segments: Sequence[Segment], end_offset: Offset) -> None:
        """Read the headers up to `end_offset`."""
        for index, segment in enumerate(segments):
            following = segments[index + 1].base_offset if index + 1 < len(segments) else end_offset
            if following <= self.offset or segment.base_offset >= end_offset:
                continue
            file = segment.open()
            if file is None:
                continue  # removed by retention or compaction; reading it later reports that
            self._advance_in(segment, file, end_offset)
        self.offset = max(self.offset, end_offset)

    def _advance_in(self, segment: Segment, file: SegmentFile, end_offset: Offset) -> None:
        for entry in walk(file, SegmentLookup(segment, file).position_before(self.offset), limit=segment.size):
            if entry.magic != MAGIC:
                continue
            batch = BatchView(entry.buffer, entry.at)
            if batch.base_offset >= end_offset:
                return
            if batch.base_offset < self.offset or not batch.is_transactional:
                continue
            if not batch.is_control:
                self.open.setdefault(batch.producer_id, batch.base_offset)
                continue
            first_offset = self.open.pop(batch.producer_id, None)
            if first_offset is not None and _is_abort(file, entry.position, batch):
                self.aborted.add((batch.producer_id, first_offset, batch.last_offset))


def _is_abort(file: SegmentFile, position: int, header: BatchView) -> bool:
    batch = BatchView(memoryview(file.pread(header.batch_length, position)))
    try:
        return control_type(batch) is ControlType.ABORT
    except CorruptRecordError as error:
        raise CorruptSegmentError(file.path, position, error) from error


def _add_ranges(found: set[AbortedRange], pieces: Generator[list[AbortedTransaction], None, bool]) -> bool:
    """Add what an index yields, and return whether later indexes cannot have more."""
    while True:
        try:
            piece = next(pieces)
        except StopIteration as end:
            return bool(end.value)
        found.update((entry.producer_id, entry.first_offset, entry.last_offset) for entry in piece)


def indexed_aborts(segments: Iterable[Segment], *, start_offset: Offset, end_offset: Offset) -> set[AbortedRange]:
    """Return the aborted transactions in the indexes that touch [start_offset, end_offset). Raises PipelineError."""
    found: set[AbortedRange] = set()
    for segment in segments:
        try:
            index = TransactionIndex(FILESYSTEM, segment.transaction_index_path, segment.base_offset)
            pieces = index.collect(fetch_offset=start_offset, upper_offset=end_offset)
            is_complete = _add_ranges(found, pieces)
        except CorruptIndexError as error:
            if not FILESYSTEM.exists(segment.transaction_index_path):  # deleted meanwhile
                continue
            raise PipelineError(f"damaged transaction index: {error}") from error
        if is_complete:
            break
    return found
