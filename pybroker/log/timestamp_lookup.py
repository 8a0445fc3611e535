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
from pybroker.records.batch import BatchView, Record
from pybroker.records.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.log.log import Log
    from pybroker.log.segment import LogSegment

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2


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
            for record in _records(segment, position, header):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampedOffset(Offset(record.offset), record.timestamp, header.partition_leader_epoch)
    return None


def offset_of_max_timestamp(log: Log) -> TimestampedOffset | None:
    """Find the record with the largest timestamp; this is `Log.offset_of_max_timestamp`."""
    log.check_usable()
    try:
        segment = max(log.segments, key=lambda segment: segment.max_timestamp.timestamp)
        timestamp, offset = segment.max_timestamp
        if timestamp < 0:
            return None
        for position, header in segment.scan(segment.position_of(offset)):
            if header.max_timestamp == timestamp:
                for record in _records(segment, position, header):
                    if record.timestamp == timestamp:
                        return TimestampedOffset(Offset(record.offset), timestamp, header.partition_leader_epoch)
    except CorruptDataError as error:
        raise CorruptRecordError(f"{log.topic_partition}: {error}") from error
    except OSError as error:
        raise log.log_directory.fail(error) from error
    return None


def _records(segment: LogSegment, position: int, header: BatchView) -> Iterator[Record]:
    """Yield the records of a batch. Raises CorruptDataError if it is damaged."""
    batch = BatchView(memoryview(read_bytes(segment.file, header.batch_length, position)))
    if not batch.is_valid:
        raise CorruptDataError(position, f"the batch at offset {batch.base_offset} has a wrong checksum")
    return batch.records()


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
