"""Reads from a log: from an offset to a slice of one segment's file.

Cost: a reader at the end of the log asks for a batch that was just written, whose position is remembered, so no file
is read. Any other offset costs a binary search in the index and usually one read of 4 kB with the headers around it.

Source: UnifiedLog.read, LocalLog.read, LogSegment.read; KIP-74.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.log import slices
from pybroker.log.indexes.entry_file import CorruptIndexError
from pybroker.log.results import LogOffsetMetadata
from pybroker.log.segments.batch_scan import CorruptDataError
from pybroker.log.segments.fetched_records import EMPTY, FetchedRecords
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.log.indexes.transaction_index import AbortedTransaction
    from pybroker.log.log_state import LogState
    from pybroker.log.segments.segment import LogSegment
    from pybroker.model import Offset

logger = logging.getLogger(__name__)


def read(log: LogState, offset: Offset, *, bytes_max: int, upper_offset: Offset, min_one_batch: bool) -> FetchedRecords:
    """Return a slice from the batch that holds `offset`, of batches below `upper_offset`, cut at `bytes_max` wherever that is.

    With `min_one_batch` the first batch is whole, however large. Raises KafkaError(OFFSET_OUT_OF_RANGE), and CORRUPT_MESSAGE if
    the disk does not hold batches there.
    """
    if log.log_directory.failure is not None or log.is_closed:
        log.check_usable()
    end_offset = log.log_end_offset
    if not log.log_start_offset <= offset <= end_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of {log.topic_partition} is not in [{log.log_start_offset}, {end_offset}]",
        )
    if offset == end_offset:
        return FetchedRecords(records=EMPTY, size=0, offset_metadata=log.end_offset_metadata)
    if offset >= upper_offset:
        return FetchedRecords(records=EMPTY, size=0, offset_metadata=offset_metadata(log, offset))
    try:
        found = _find(log, offset)
        if found is None:  # compaction has removed everything up to the end
            return FetchedRecords(records=EMPTY, size=0, offset_metadata=log.end_offset_metadata)
        segment, batch = found
        position, size = batch
        limit = segment.tail.size if not segment.damage else segment.intact_size(position)
        if upper_offset < end_offset:
            limit = min(limit, _position_of_upper(log, segment, upper_offset, position + size))
        return slices.slice_from(segment, offset, batch, limit, bytes_max, min_one_batch)
    except CorruptDataError as error:
        raise CorruptRecordError(f"{log.topic_partition} near offset {offset}: {error}") from error
    except OSError as error:
        raise log.log_directory.fail(error) from error


def _find(log: LogState, offset: Offset) -> tuple[LogSegment, tuple[int, int]] | None:
    """Return the segment, and position and size in it, of the batch that holds `offset` or follows it."""
    segments = log.segments
    if segments.active.base_offset <= offset:
        found = segments.active.find_batch(offset, log.log_end_offset)
        return (segments.active, found) if found is not None else None
    for index in range(segments.floor_index(offset), len(segments)):
        segment = segments[index]
        found = segment.find_batch(offset, log.log_end_offset)
        if found is not None:
            return segment, found
        if offset < segment.end_offset:
            _note_gap(log, segment, offset)
    return None


def offset_behind(log: LogState, fetched: FetchedRecords) -> Offset:
    """Return an offset that no record in the slice reaches. Raises KafkaError."""
    log.check_usable()
    try:
        return _offset_behind(log, fetched)
    except CorruptIndexError as error:
        raise CorruptRecordError(f"{log.topic_partition}: {error}") from error
    except OSError as error:
        raise log.log_directory.fail(error) from error


def _offset_behind(log: LogState, fetched: FetchedRecords) -> Offset:
    offset, segment_base_offset, position = fetched.offset_metadata
    segment, end = log.segments[log.segments.floor_index(segment_base_offset)], position + fetched.size
    return segment.end_offset if end >= segment.size else segment.offset_behind(offset, end)


def _note_gap(log: LogState, segment: LogSegment, offset: Offset) -> None:
    """Log once that a segment ends before the next one begins, although the topic is never compacted."""
    if "compact" in log.config.cleanup_policy or segment.is_gap_logged:
        return
    segment.is_gap_logged = True
    logger.warning(
        "%s: the offsets %d to %d are in no file: %s ends before the next segment begins. Readers continue after them. "
        "If the topic was never compacted, these records are lost",
        log.topic_partition,
        offset,
        segment.end_offset - 1,
        segment.path,
    )


def _position_of_upper(log: LogState, segment: LogSegment, upper_offset: Offset, behind_first: int) -> int:
    """Return where in `segment` the batches that must not be visible yet begin; its end if they are in a later segment.

    If damage hides that, return where the damage begins, after the first batch.
    """
    segments = log.segments
    next_index = segments.floor_index(segment.base_offset) + 1
    if next_index < len(segments) and segments[next_index].base_offset <= upper_offset:
        return segment.size
    try:
        found = segment.find_batch(upper_offset, log.log_end_offset)
    except CorruptDataError as error:
        return max(error.position, behind_first)
    return found[0] if found is not None else segment.size


def offset_behind_damage(log: LogState, offset: Offset) -> Offset | None:
    """Return where reading can continue after `read` from `offset` raised CORRUPT_MESSAGE; None if that is not known."""
    segment = log.segments[max(log.segments.floor_index(offset), 0)]
    try:
        behind = segment.behind_damage(offset)
    except OSError as error:
        raise log.log_directory.fail(error) from error
    return min(behind, log.log_end_offset) if behind is not None else None


def offset_metadata(log: LogState, offset: Offset) -> LogOffsetMetadata:
    """Return where an offset is; without the position if it is outside of the log."""
    log.check_usable()
    if offset == log.log_end_offset:
        return log.end_offset_metadata
    if not log.log_start_offset <= offset < log.log_end_offset:
        return LogOffsetMetadata(offset)
    try:
        found = _find(log, offset)
    except CorruptDataError:
        return LogOffsetMetadata(offset)  # a read there raises the error
    except OSError as error:
        raise log.log_directory.fail(error) from error
    return LogOffsetMetadata(offset, found[0].base_offset, found[1][0]) if found is not None else log.end_offset_metadata


def aborted_transactions(
    log: LogState, *, fetch_offset: Offset, upper_offset: Offset, fetched: FetchedRecords | None = None
) -> list[AbortedTransaction]:
    """Return the aborted transactions, by last offset, that a read-committed reader of the range, or of `fetched`, skips."""
    if fetched is not None:
        upper_offset = min(upper_offset, offset_behind(log, fetched))
    pieces = aborted_in_pieces(log, fetch_offset=fetch_offset, upper_offset=upper_offset)
    return [one for piece in pieces for one in piece]


def aborted_in_pieces(log: LogState, *, fetch_offset: Offset, upper_offset: Offset) -> Iterator[list[AbortedTransaction]]:
    """Yield the aborted transactions of a range, those of about a hundred entries of an index at a time."""
    log.check_usable()
    try:
        for segment in log.segments.starting_with(fetch_offset):
            is_complete = yield from segment.transaction_index.collect(fetch_offset=fetch_offset, upper_offset=upper_offset)
            if is_complete:
                break
    except CorruptIndexError as error:
        raise CorruptRecordError(f"{log.topic_partition}: {error}") from error
    except OSError as error:
        raise log.log_directory.fail(error) from error
