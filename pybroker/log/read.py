"""Reading from a log: from an offset to a slice of one segment's file.

Cost: a reader at the end of the log asks for a batch that was just written, whose place is remembered: no look into a file. Any
other offset costs a binary search in the index and usually one read of 4 kB with the headers around it.

Source: UnifiedLog.read, LocalLog.read, LogSegment.read; KIP-74.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.log.batch_scan import CorruptDataError
from pybroker.log.file_records import FileRecords
from pybroker.log.results import EMPTY, FetchedRecords, LogOffsetMetadata
from pybroker.model import new_tuple
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.errors import CorruptRecordError

if TYPE_CHECKING:
    from pybroker.log.log import Log
    from pybroker.log.segment import LogSegment
    from pybroker.log.transaction_index import AbortedTransaction


def read(log: Log, offset: int, *, bytes_max: int, upper_offset: int, min_one_batch: bool) -> FetchedRecords:
    """See `Log.read`."""
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
        segment, position, batch_size = found
        limit = segment.size if upper_offset >= end_offset else _position_of_upper(log, segment, upper_offset)
        metadata = new_tuple(LogOffsetMetadata, (offset, segment.base_offset, position))
        size = min(limit - position, max(bytes_max, batch_size) if min_one_batch else bytes_max)
        if size <= 0:
            return FetchedRecords(records=EMPTY, size=0, offset_metadata=metadata, first_batch_size=batch_size)
        return FetchedRecords(
            records=FileRecords(segment.file, position, size),
            size=size,
            offset_metadata=metadata,
            first_batch_size=batch_size,
            is_first_incomplete=size < batch_size,
        )
    except CorruptDataError as error:
        raise CorruptRecordError(f"{log.topic_partition} near offset {offset}: {error}") from error
    except OSError as error:
        raise log.log_directory.fail(error) from error


def _find(log: Log, offset: int) -> tuple[LogSegment, int, int] | None:
    """Segment, position and size of the batch that holds `offset` or follows it."""
    segments = log.segments
    if segments.active.base_offset <= offset:
        found = segments.active.find_batch(offset)
        return (segments.active, *found) if found is not None else None
    for index in range(segments.floor_index(offset), len(segments)):
        found = segments[index].find_batch(offset)
        if found is not None:
            return (segments[index], *found)
    return None


def _position_of_upper(log: Log, segment: LogSegment, upper_offset: int) -> int:
    """Where in `segment` the batches that are not to be seen yet begin; its end when they are in a later one."""
    segments = log.segments
    next_index = segments.floor_index(segment.base_offset) + 1
    if next_index < len(segments) and segments[next_index].base_offset <= upper_offset:
        return segment.size
    found = segment.find_batch(upper_offset)
    return found[0] if found is not None else segment.size


def offset_metadata(log: Log, offset: int) -> LogOffsetMetadata:
    """See `Log.offset_metadata`."""
    log.check_usable()
    if offset == log.log_end_offset:
        return log.end_offset_metadata
    if not log.log_start_offset <= offset < log.log_end_offset:
        return LogOffsetMetadata(offset)
    try:
        found = _find(log, offset)
    except CorruptDataError as error:
        raise CorruptRecordError(f"{log.topic_partition} near offset {offset}: {error}") from error
    except OSError as error:
        raise log.log_directory.fail(error) from error
    return LogOffsetMetadata(offset, found[0].base_offset, found[1]) if found is not None else log.end_offset_metadata


def aborted_transactions(log: Log, fetch_offset: int, upper_offset: int) -> list[AbortedTransaction]:
    """See `Log.aborted_transactions`."""
    log.check_usable()
    found: list[AbortedTransaction] = []
    try:
        for segment in log.segments.starting_with(fetch_offset):
            of_segment, is_complete = segment.transaction_index.collect(fetch_offset, upper_offset)
            found += of_segment
            if is_complete:
                break
    except OSError as error:
        raise log.log_directory.fail(error) from error
    return found
