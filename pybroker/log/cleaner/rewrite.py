"""Reads segments batch by batch, and writes them again without the records that may be removed.

Everything is done in steps, so that the loop does other work in between: a step yields the bytes that it read and
wrote, or what must run in a thread before the next step. A batch that loses nothing is copied as it is. A batch that
loses records keeps its offsets, producer and codec. A batch that loses all records stays, empty, while it is the last
that its producer wrote, and if it is the last of the cleaned part: it marks where that ends.

Source: Cleaner.cleanSegments, buildOffsetMap, shouldRetainRecord; MemoryRecords.filterTo; KIP-534.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pybroker.log.segment import LogSegment
from pybroker.log.segment_files import CLEANED_SUFFIX
from pybroker.log.tail import RELATIVE_OFFSET_MAX
from pybroker.model import NO_OFFSET, Offset
from pybroker.records import kernels
from pybroker.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchView,
    claimed_size,
)
from pybroker.records.build import assemble_batch
from pybroker.records.compression import compress
from pybroker.records.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.log.cleaner.cleanable import Cleanable
    from pybroker.log.cleaner.key_offsets import KeyOffsets
    from pybroker.log.cleaner.transactions import CleanedTransactions
    from pybroker.log.log import Log
    from pybroker.model import Offset

Step = int | Callable[[], None]

CHUNK: Final = 1 << 18
WRITE_BYTES: Final = 1 << 16
_STAYS_WITHOUT_RECORDS: Final = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT

NOTHING: Final = (b"", 0, -1, 0)


@dataclass(slots=True)
class Totals:
    """The result of a cleaning."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0


def note_keys(one: Cleanable, keys: KeyOffsets, transactions: CleanedTransactions) -> Iterator[Step]:
    """Fill `keys` from the part that is not clean, until it ends or they are full. Raises CorruptRecordError, OSError."""
    log = one.log
    for segment, end in _with_ends(log, start_offset=one.first_dirty_offset, end_offset=one.first_uncleanable_offset):
        transactions.add_aborted(log.aborted_transactions(fetch_offset=segment.base_offset, upper_offset=end))
        for batch in batches_of(segment):
            if not isinstance(batch, BatchView):
                yield batch
            elif batch.is_control:
                transactions.on_control_batch(batch)
            elif not transactions.on_batch(batch) and batch.last_offset >= one.first_dirty_offset:
                keys.add(batch)
                yield batch.batch_length
                if keys.is_full:
                    return
        keys.latest_offset = end - 1


def rewrite(
    log: Log,
    group: Sequence[tuple[LogSegment, Offset]],
    target: LogSegment,
    keys: KeyOffsets,
    transactions: CleanedTransactions,
    *,
    totals: Totals,
    now_ms: int,
) -> Iterator[Step]:
    """Write what stays of a group of segments, each with its end offset, to `target`. Raises CorruptRecordError, OSError."""
    buffer, position = bytearray(), 0
    transactions.index = target.transaction_index
    for segment, end in group:
        transactions.add_aborted(log.aborted_transactions(fetch_offset=segment.base_offset, upper_offset=end))
        for batch in batches_of(segment):
            if not isinstance(batch, BatchView):
                yield batch
                continue
            kept = _retained(log, batch, keys, transactions, now_ms)
            totals.bytes_read += batch.batch_length
            totals.records_read += batch.record_count
            if kept is not None:
                view = BatchView(memoryview(kept))
                target.note_batch(view.last_offset, max_timestamp=view.max_timestamp, position=position, size=len(kept))
                position += len(kept)
                buffer += kept
                totals.bytes_written += len(kept)
                totals.records_written += view.record_count
                if len(buffer) >= WRITE_BYTES:
                    target.write_noted(buffer)
                    buffer = bytearray()
            yield batch.batch_length + (0 if kept is None else len(kept))
    target.write_noted(buffer)
    target.deactivate()


def new_target(log: Log, base_offset: Offset, now_ms: int) -> LogSegment:
    """Return an empty segment for a group, under names that no start takes for a segment's. Raises OSError."""
    return LogSegment.create(log.filesystem, log.path, base_offset, log.config, now_ms=now_ms, suffix=CLEANED_SUFFIX)


def groups(log: Log, end_offset: Offset) -> Iterator[list[tuple[LogSegment, Offset]]]:
    """Yield the segments below `end_offset`, each with its end offset, in groups that fit one segment."""
    group: list[tuple[LogSegment, Offset]] = []
    size = 0
    for segment, end in _with_ends(log, start_offset=log.segments[0].base_offset, end_offset=end_offset):
        is_too_far = bool(group) and end - 1 - group[0][0].base_offset > RELATIVE_OFFSET_MAX
        if group and (size + segment.size > log.config.segment_bytes or is_too_far):
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


def batches_of(segment: LogSegment, position: int = 0) -> Iterator[BatchView | Step]:
    """Yield the segment's batches, whole and checked, and between them the work that must run in a thread before continuing."""
    file, size = segment.file, segment.size
    length = CHUNK
    while position < size:
        length = min(length, size - position)
        cold = file.coldness(length, position)
        if cold is not None:
            yield cold
        chunk = memoryview(file.pread(length, position))
        at = 0
        while (claimed := claimed_size(chunk, at)) is not None and at + claimed <= len(chunk):
            batch = BatchView(chunk, at)
            if batch.magic != MAGIC:
                raise CorruptRecordError(f"{segment.path}: magic {batch.magic} at byte {position + at}")
            batch.ensure_valid()
            yield batch
            at += claimed
        position += at
        length = CHUNK
        if not at:
            if claimed is None or position + claimed > size:
                raise CorruptRecordError(f"{segment.path}: no whole batch at byte {position}")
            length = max(claimed, CHUNK)


def _retained(
    log: Log, batch: BatchView, keys: KeyOffsets, transactions: CleanedTransactions, now_ms: int
) -> memoryview | bytearray | None:
    """Return what stays of a batch, maybe the batch itself; None for nothing."""
    horizon_ms = batch.delete_horizon_ms
    is_past_horizon = horizon_ms is not None and horizon_ms <= now_ms
    marks_nothing = False
    latest_offset = keys.latest_offset
    if batch.is_control:
        latest_offset = NO_OFFSET  # control records have no keys of the topic
        marks_nothing = transactions.on_control_batch(batch)
        loses_all = marks_nothing and is_past_horizon
    else:
        loses_all = transactions.on_batch(batch)

    def retain(base_timestamp: int) -> tuple[bytes, int, int, int]:
        return kernels.retain_records(
            batch.record_section(),
            batch.record_count,
            batch.base_offset,
            batch.base_timestamp,
            base_timestamp,
            keys.offsets,
            latest_offset,
            not is_past_horizon,
        )

    base_timestamp, attributes = batch.base_timestamp, batch.attributes
    section, count, max_timestamp, tombstones = NOTHING
    if batch.record_count and not loses_all:
        section, count, max_timestamp, tombstones = retain(base_timestamp)
    if count == 0:
        if batch.next_offset != keys.latest_offset + 1 and not _is_last_of_producer(log, batch):
            return None
        return batch.data if batch.record_count == 0 else _emptied(batch)
    if horizon_ms is None and (tombstones or marks_nothing):
        base_timestamp, attributes = now_ms + log.config.delete_retention_ms, attributes | DELETE_HORIZON_BIT
        section, count, max_timestamp, tombstones = retain(base_timestamp)
    elif count == batch.record_count:
        return batch.data
    return assemble_batch(
        compress(batch.compression, section) if batch.compression else section,
        base_offset=batch.base_offset,
        last_offset_delta=batch.last_offset_delta,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=batch.max_timestamp if batch.attributes & LOG_APPEND_TIME_BIT else max_timestamp,
        record_count=count,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        leader_epoch=batch.partition_leader_epoch,
    )


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
