"""Reads segments batch by batch, and writes them again without the records that may be removed.

The loop decides which keys stay, one batch at a time, and does other work in between. Codecs run in the cleaner's thread, and
writes in that of the directory. A batch that loses nothing is copied as it is. A batch that loses records keeps its offsets,
producer and codec. Records are decompressed only if they count: not those of aborted transactions and of emptied batches. A batch
that loses all records stays, empty, while it is the last that its producer wrote, and if it is the last of the cleaned part: it
marks where that ends.

Source: Cleaner.cleanSegments, buildOffsetMap, shouldRetainRecord; MemoryRecords.filterTo; KIP-534.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.log.cleaner.chunks import THREAD_BYTES, ChunkReader, pieces_of, sections_of
from pybroker.log.read import aborted_in_pieces
from pybroker.log.results import computed
from pybroker.log.segments.segment import LogSegment
from pybroker.log.segments.segment_files import CLEANED_SUFFIX
from pybroker.log.tail import RELATIVE_OFFSET_MAX
from pybroker.model import NO_OFFSET, Offset
from pybroker.records import kernels
from pybroker.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchView,
)
from pybroker.records.build import assemble_batch
from pybroker.records.compression import compress
from pybroker.sharing.work import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pybroker.log.cleaner.chunks import Section
    from pybroker.log.cleaner.cleanable import Cleanable
    from pybroker.log.cleaner.key_offsets import KeyOffsets
    from pybroker.log.cleaner.transactions import CleanedTransactions
    from pybroker.log.cleaner.worker import CleanerWorker
    from pybroker.log.log import Log
    from pybroker.sharing.work import Pausing, Work

WRITE_BYTES: Final = 1 << 19
_STAYS_WITHOUT_RECORDS: Final = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT

_SEGMENTS_PER_GROUP: Final = 100
"""All segments of a group are replaced at once, with up to four renames each; the next cleaning joins more. Kafka has no such
bound.
"""

NOTHING: Final[tuple[list[bytes], int, int, int]] = ([], 0, -1, 0)


@dataclass(slots=True)
class Totals:
    """The result of a cleaning."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0


def note_keys(one: Cleanable, keys: KeyOffsets, transactions: CleanedTransactions, worker: CleanerWorker) -> Work[None]:
    """Fill `keys` from the part that is not clean, until it ends or they are full. Raises CorruptRecordError, OSError."""
    log = one.log
    for segment, end in _with_ends(log, start_offset=one.first_dirty_offset, end_offset=one.first_uncleanable_offset):
        yield from _aborted(log, segment, end, transactions)
        reader = ChunkReader(log, segment, worker)
        while chunk := (yield from reader.read()):
            keyed = []
            for batch in chunk:
                if _has_keys(batch, transactions) and batch.last_offset >= one.first_dirty_offset:
                    keyed.append(batch)
                yield None
            while keyed:
                sections = yield from sections_of(keyed, worker)
                for batch, section in zip(keyed, sections, strict=False):
                    yield from keys.add(batch, section)
                    yield from worker.throttle.spend(batch.batch_length)
                    if keys.is_full:
                        return
                keyed = keyed[len(sections) :]
        keys.latest_offset = end - 1


def _has_keys(batch: BatchView, transactions: CleanedTransactions) -> bool:
    if batch.is_control:
        transactions.on_control_batch(batch)
        return False
    return not transactions.on_batch(batch)


def rewrite(  # noqa: PLR0917  (each is of another kind)
    log: Log,
    group: Sequence[tuple[LogSegment, Offset]],
    target: LogSegment,
    keys: KeyOffsets,
    transactions: CleanedTransactions,
    worker: CleanerWorker,
    *,
    totals: Totals,
    now_ms: int,
) -> Work[None]:
    """Write what stays of a group of segments, each with its end offset, to `target`. Raises CorruptRecordError, OSError."""
    buffer, position = bytearray(), 0
    run = log.log_directory.run_in_thread
    transactions.index = target.transaction_index
    for segment, end in group:
        yield from _aborted(log, segment, end, transactions)
        reader = ChunkReader(log, segment, worker)
        while chunk := (yield from reader.read()):
            totals.bytes_read += sum(batch.batch_length for batch in chunk)
            totals.records_read += sum(batch.record_count for batch in chunk)
            for data in (yield from _kept_of(log, chunk, keys, transactions, worker, now_ms)):
                view = BatchView(memoryview(data))
                target.note_batch(view, position)
                position += len(data)
                buffer += data
                totals.bytes_written += len(data)
                totals.records_written += view.record_count
                yield from worker.throttle.spend(len(data))
            if len(buffer) >= WRITE_BYTES:
                yield from in_thread(run, partial(target.write_noted, buffer))
                buffer = bytearray()

    def finish() -> None:
        target.write_noted(buffer)
        target.deactivate()

    yield from in_thread(run, finish)


def _kept_of(  # noqa: PLR0917  (as above)
    log: Log,
    chunk: Sequence[BatchView],
    keys: KeyOffsets,
    transactions: CleanedTransactions,
    worker: CleanerWorker,
    now_ms: int,
) -> Work[list[memoryview | bytearray]]:
    """Return what stays of the batches of a chunk."""
    fates = []
    for batch in chunk:
        fates.append(_fate(batch, keys, transactions, now_ms))
        yield None
    assembled: list[memoryview | bytearray] = []
    while fates:
        needed = [fate.batch for fate in fates if fate.needs_records]
        sections = yield from sections_of(needed, worker)
        have = iter(sections)
        kept: list[_Kept] = []
        left = len(sections)
        for fate in fates:
            if fate.needs_records and not left:
                break
            left -= fate.needs_records
            kept.append((yield from _retained(log, fate, next(have) if fate.needs_records else b"", keys, now_ms)))
            yield from worker.throttle.spend(fate.batch.batch_length)
        fates = fates[len(kept) :]
        assembled += yield from _assembled(kept, worker)
    return assembled


def _aborted(log: Log, segment: LogSegment, end: Offset, transactions: CleanedTransactions) -> Pausing[None]:
    """Add the aborted transactions of a segment."""
    for piece in aborted_in_pieces(log, fetch_offset=segment.base_offset, upper_offset=end):
        transactions.add_aborted(piece)
        yield None


def new_target(log: Log, base_offset: Offset, now_ms: int) -> LogSegment:
    """Return an empty segment for a group, under names that no start takes for a segment's. Raises OSError."""
    return LogSegment.create(log.filesystem, log.path, base_offset, log.config, now_ms=now_ms, suffix=CLEANED_SUFFIX)


def groups(log: Log, end_offset: Offset) -> Iterator[list[tuple[LogSegment, Offset]]]:
    """Yield the segments below `end_offset`, each with its end offset, in groups that fit one segment."""
    group: list[tuple[LogSegment, Offset]] = []
    size = 0
    for segment, end in _with_ends(log, start_offset=log.segments[0].base_offset, end_offset=end_offset):
        is_too_far = bool(group) and end - 1 - group[0][0].base_offset > RELATIVE_OFFSET_MAX
        is_full = size + segment.size > log.config.segment_bytes or len(group) == _SEGMENTS_PER_GROUP
        if group and (is_full or is_too_far):
            yield group
            group, size = [], 0
        group.append((segment, end))
        size += segment.size
    if group:
        yield group


def _with_ends(log: Log, *, start_offset: Offset, end_offset: Offset) -> list[tuple[LogSegment, Offset]]:
    """Return the segments that have offsets in [start, end), each with its end offset; never the active one."""
    return [
        (segment, following.base_offset)
        for segment, following in itertools.pairwise(log.segments)
        if following.base_offset > start_offset and segment.base_offset < end_offset
    ]


class _Fate(NamedTuple):
    """The facts that are known of a batch before its records are read, in the order of offsets."""

    batch: BatchView
    latest_offset: Offset
    """The records up to this offset may have a newer one."""
    is_past_horizon: bool
    marks_nothing: bool
    loses_all: bool

    @property
    def needs_records(self) -> bool:
        return bool(self.batch.record_count) and not self.loses_all


class _Cut(NamedTuple):
    """A batch that loses some records, and what stays of them, uncompressed."""

    batch: BatchView
    attributes: int
    base_timestamp: int
    pieces: Sequence[bytes]
    record_count: int
    max_timestamp: int

    def assembled(self) -> bytearray:
        """Return the new batch."""
        batch, section = self.batch, b"".join(self.pieces)
        return assemble_batch(
            compress(batch.compression, section) if batch.compression else section,
            base_offset=batch.base_offset,
            last_offset_delta=batch.last_offset_delta,
            attributes=self.attributes,
            base_timestamp=self.base_timestamp,
            max_timestamp=batch.max_timestamp if batch.attributes & LOG_APPEND_TIME_BIT else self.max_timestamp,
            record_count=self.record_count,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            leader_epoch=batch.partition_leader_epoch,
        )


_Kept = memoryview | bytearray | _Cut | None


def _fate(batch: BatchView, keys: KeyOffsets, transactions: CleanedTransactions, now_ms: int) -> _Fate:
    """Decide what does not depend on keys. Raises CorruptRecordError."""
    horizon_ms = batch.delete_horizon_ms
    is_past_horizon = horizon_ms is not None and horizon_ms <= now_ms
    if batch.is_control:  # control records have no keys of the topic
        marks_nothing = transactions.on_control_batch(batch)
        return _Fate(batch, NO_OFFSET, is_past_horizon, marks_nothing, loses_all=marks_nothing and is_past_horizon)
    return _Fate(batch, keys.latest_offset, is_past_horizon, marks_nothing=False, loses_all=transactions.on_batch(batch))


def _retained(log: Log, fate: _Fate, section: Section, keys: KeyOffsets, now_ms: int) -> Pausing[_Kept]:
    """Return what stays of a batch, maybe the batch itself; None for nothing.

    `section` has the batch's records if they count.
    """
    batch = fate.batch

    def retain(base_timestamp: int) -> Pausing[tuple[list[bytes], int, int, int]]:
        kept: list[bytes] = []
        count, max_timestamp, tombstones = 0, -1, 0
        for piece, in_piece in pieces_of(section, batch.record_count):
            stays, stay_count, largest, without_value = kernels.retain_records(
                piece,
                in_piece,
                batch.base_offset,
                batch.base_timestamp,
                base_timestamp,
                keys.offsets,
                fate.latest_offset,
                not fate.is_past_horizon,
            )
            kept.append(stays)
            count, max_timestamp, tombstones = count + stay_count, max(max_timestamp, largest), tombstones + without_value
            yield None
        return kept, count, max_timestamp, tombstones

    base_timestamp, attributes = batch.base_timestamp, batch.attributes
    kept, count, max_timestamp, tombstones = (yield from retain(base_timestamp)) if fate.needs_records else NOTHING
    if count == 0:
        if batch.next_offset != keys.latest_offset + 1 and not _is_last_of_producer(log, batch):
            return None
        return batch.data if batch.record_count == 0 else _emptied(batch)
    if batch.delete_horizon_ms is None and (tombstones or fate.marks_nothing):
        base_timestamp, attributes = now_ms + log.config.delete_retention_ms, attributes | DELETE_HORIZON_BIT
        kept, count, max_timestamp, tombstones = yield from retain(base_timestamp)
    elif count == batch.record_count:
        return batch.data
    return _Cut(batch, attributes, base_timestamp, kept, count, max_timestamp)


def _assembled(kept: Sequence[_Kept], worker: CleanerWorker) -> Work[list[memoryview | bytearray]]:
    """Return the batches that stay, as bytes. Many compressed batches are compressed at once in a thread."""
    cuts = [one for one in kept if isinstance(one, _Cut)]

    def assemble() -> list[bytearray]:
        return [one.assembled() for one in cuts]

    is_short = sum(len(piece) for one in cuts if one.batch.compression for piece in one.pieces) < THREAD_BYTES
    new = iter(assemble() if is_short else (yield from computed(worker.run_codec, assemble)))
    return [next(new) if isinstance(one, _Cut) else one for one in kept if one is not None]


def _is_last_of_producer(log: Log, batch: BatchView) -> bool:
    """Return whether a start that reads the log needs this batch to know the state of its producer."""
    entry = log.producers.producers.get(batch.producer_id) if batch.has_producer_id else None
    if entry is None:
        return False
    if entry.batches:
        return entry.batches[-1].last_offset == batch.last_offset
    return batch.is_control and batch.producer_epoch == entry.producer_epoch


def _emptied(batch: BatchView) -> bytearray:
    """Return the header alone, without codec and delete horizon, which have no meaning any more."""
    header = assemble_batch(
        b"",
        base_offset=batch.base_offset,
        last_offset_delta=batch.last_offset_delta,
        attributes=batch.attributes & _STAYS_WITHOUT_RECORDS,
        base_timestamp=batch.max_timestamp,
        max_timestamp=batch.max_timestamp,
        record_count=0,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        leader_epoch=batch.partition_leader_epoch,
    )
    assert len(header) == HEADER_SIZE
    return header
