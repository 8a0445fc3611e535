"""Finds offsets by time, for ListOffsets.

The time index of a segment gives the offset up to which everything is older than the target; from there the batch
headers are scanned to the first batch whose max timestamp is not older, and in that batch the records.

Source: UnifiedLog.fetchOffsetByTimestamp, legacyFetchOffsetsBefore; LogSegment.findOffsetByTimestamp; KIP-33, KIP-79.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.log.batch_scan import CorruptDataError, read_bytes
from pybroker.log.results import TimestampedOffset
from pybroker.model import Offset
from pybroker.records import sections
from pybroker.records.batch import LOG_APPEND_TIME_BIT, BatchView, Record
from pybroker.records.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.log.log import Log
    from pybroker.log.segment import LogSegment

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
_ANY_TIME: Final = -(1 << 63)


def offset_for_timestamp(log: Log, timestamp: int) -> TimestampedOffset | None:
    """Find the first record at or after `timestamp`; this is `Log.offset_for_timestamp`."""
    log.check_usable()
    try:
        for segment in log.segments.starting_with(log.log_start_offset):
            if segment.largest_timestamp_ms >= timestamp:
                found = _find_in(log, segment, timestamp)
                if found is not None:  # otherwise the records that are young enough lie below the log start offset
                    return found
    except CorruptDataError as error:
        raise CorruptRecordError(f"{log.topic_partition}: {error}") from error
    except OSError as error:
        raise log.log_directory.fail(error) from error
    return None


def _find_in(log: Log, segment: LogSegment, timestamp: int) -> TimestampedOffset | None:
    start_offset = log.log_start_offset
    for position, header in segment.scan(segment.position_of(Offset(max(segment.older_until(timestamp), start_offset)))):
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            batch = _batch_at(segment, position, header)
            record = _first_record(batch, timestamp, start_offset)
            if record is not None:
                return _found(batch, record)
    return None


def offset_of_max_timestamp(log: Log) -> TimestampedOffset | None:
    """Find the record with the largest timestamp; this is `Log.offset_of_max_timestamp`."""
    log.check_usable()
    best: TimestampedOffset | None = None
    try:
        segments = log.segments.starting_with(log.log_start_offset)
        for segment in sorted(segments, key=lambda segment: -segment.max_timestamp.timestamp):
            timestamp, offset = segment.max_timestamp
            if timestamp < 0 or (best is not None and timestamp < best.timestamp):
                break
            found = _find_max_in(log, segment, timestamp, position=segment.position_of(offset)) or _max_of(log, segment)
            if found is not None and (best is None or (-found.timestamp, found.offset) < (-best.timestamp, best.offset)):
                best = found
    except CorruptDataError as error:
        raise CorruptRecordError(f"{log.topic_partition}: {error}") from error
    except OSError as error:
        raise log.log_directory.fail(error) from error
    return best


def _find_max_in(log: Log, segment: LogSegment, timestamp: int, *, position: int) -> TimestampedOffset | None:
    """Find the first record from `position` on with exactly this timestamp, in the first batch that has it as its largest.

    Return None if the index names a batch that has no such record any more: compaction has removed it, or it lies below
    the log start offset.
    """
    for at, header in segment.scan(position):
        if header.max_timestamp == timestamp:
            batch = _batch_at(segment, at, header)
            record = _first_record(batch, timestamp, log.log_start_offset)
            return None if record is None or record[1] != timestamp else _found(batch, record)
    return None


def _max_of(log: Log, segment: LogSegment) -> TimestampedOffset | None:
    """Find the record with the largest timestamp of a segment by reading its headers, and those batches that may hold it."""
    best: TimestampedOffset | None = None
    for position, header in segment.scan(segment.position_of(log.log_start_offset)):
        is_larger = best is None or header.max_timestamp > best.timestamp
        if header.max_timestamp >= 0 and header.record_count and is_larger and header.last_offset >= log.log_start_offset:
            batch = _batch_at(segment, position, header)
            record = _largest_timestamp(batch, log.log_start_offset)
            if record is not None and (best is None or record[1] > best.timestamp):
                best = _found(batch, record)
    return best


def _first_record(batch: BatchView, timestamp: int, start_offset: Offset) -> tuple[Offset, int] | None:
    """Return offset and timestamp of the batch's first record at or after both `timestamp` and `start_offset`."""
    section, count = batch.record_section(), batch.record_count
    if not batch.attributes & LOG_APPEND_TIME_BIT:
        return sections.first_record(section, count, batch.base_offset, batch.base_timestamp, timestamp, start_offset)
    found = sections.first_record(section, count, batch.base_offset, 0, _ANY_TIME, start_offset)
    return None if found is None or batch.max_timestamp < timestamp else (found[0], batch.max_timestamp)


def _largest_timestamp(batch: BatchView, start_offset: Offset) -> tuple[Offset, int] | None:
    """Return offset and timestamp of the batch's first record with the largest timestamp from `start_offset` on."""
    if batch.attributes & LOG_APPEND_TIME_BIT:
        return _first_record(batch, 0, start_offset)
    return sections.largest_timestamp(
        batch.record_section(), batch.record_count, batch.base_offset, batch.base_timestamp, start_offset
    )


def _found(batch: BatchView, record: tuple[Offset, int]) -> TimestampedOffset:
    return TimestampedOffset(*record, batch.partition_leader_epoch)


def records_of(segment: LogSegment, position: int, header: BatchView) -> Iterator[Record]:
    """Yield the records of a batch. Raises CorruptDataError if it is damaged."""
    return _batch_at(segment, position, header).records()


def _batch_at(segment: LogSegment, position: int, header: BatchView) -> BatchView:
    """Read a whole batch. Raises CorruptDataError if it is damaged."""
    batch = BatchView(memoryview(read_bytes(segment.file, header.batch_length, position)))
    if not batch.is_valid:
        raise CorruptDataError(position, f"the batch at offset {batch.base_offset} has a wrong checksum")
    return batch


def legacy_offsets_before(log: Log, timestamp: int, *, count: int) -> list[Offset]:
    """Find offsets for ListOffsets v0; this is `Log.legacy_offsets_before`."""
    log.check_usable()
    try:
        times = [(max(segment.base_offset, log.log_start_offset), segment.modified_ms) for segment in log.segments]
    except OSError as error:
        raise log.log_directory.fail(error) from error
    if log.segments.active.size > 0:
        times.append((log.log_end_offset, log.services.clock.time_ms()))
    if timestamp == LATEST_TIMESTAMP:
        last = len(times) - 1
    elif timestamp == EARLIEST_TIMESTAMP:
        last = 0
    else:
        last = next((index for index in reversed(range(len(times))) if times[index][1] <= timestamp), -1)
    offsets = [offset for offset, _ in times[: last + 1]]
    return sorted(offsets[max(len(offsets) - count, 0) :], reverse=True)
