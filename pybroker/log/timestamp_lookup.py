"""Finds offsets by time, for ListOffsets.

The time index of a segment gives the offset up to which everything is older than the target. The search continues from there, by
batch headers, to the first batch whose max timestamp is not older. Then it looks at the records of that batch.

A search may pass thousands of segments and millions of headers, so the searches yield after each header, and with each piece of a
batch that they look into. Other work may meanwhile take segments away or cut the log. Then the
search looks its place up again by the offset that it has come to, and continues there: what it has passed does not matter to it
any more.

A thread first reads the bytes that the page cache lacks (`cold_lookup`); the generators yield this step.

Source: UnifiedLog.fetchOffsetByTimestamp, legacyFetchOffsetsBefore; LogSegment.findOffsetByTimestamp; KIP-33, KIP-79.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from pybroker.log.cold_lookup import cold_indexes, cold_lookup, cold_next, cold_time_lookup, quietly
from pybroker.log.results import Computation, TimestampedOffset
from pybroker.log.segments.batch_scan import CorruptDataError, read_bytes
from pybroker.model import Offset
from pybroker.records import sections
from pybroker.records.batch import LOG_APPEND_TIME_BIT, BatchView
from pybroker.records.compression import inflated
from pybroker.records.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.log_state import LogState
    from pybroker.log.segments.file_records import SegmentFile
    from pybroker.log.segments.segment import LogSegment
    from pybroker.sharing.work import Pausing, Work

    Result = TypeVar("Result")

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
_ANY_TIME: Final = -(1 << 63)
_LOOP_BYTES: Final = 1 << 20
"""A longer batch is read in a thread, which also checks its checksum."""


class _ChangedError(Exception):
    """Segments were taken away, or the log was cut, while a search paused before the batch at `offset`."""

    def __init__(self, offset: Offset) -> None:
        super().__init__(offset)
        self.offset = offset


def _pause(log: LogState, offset: Offset, step: Callable[[], None] | None = None) -> Work[None]:
    """Give others their turn, while a thread runs `step`.

    Raises _ChangedError, and KafkaError if the log cannot be used any more.
    """
    before = log.segments.removals, log.truncations
    yield None if step is None else quietly(step)
    log.check_usable()
    if before != (log.segments.removals, log.truncations):
        raise _ChangedError(offset)


def _batch(log: LogState, file: SegmentFile, position: int, header: BatchView) -> Work[BatchView]:
    """Read a whole batch, in a thread if it is long or the page cache lacks it. Raises CorruptDataError, OSError."""
    length = header.batch_length
    reading = Computation(lambda: batch_at(file, position, header))
    if log.filesystem.is_concurrent and (length > _LOOP_BYTES or file.coldness(length, position) is not None):
        yield reading
    else:
        reading()
    return reading.result()


def _guarded(log: LogState, search: Callable[[Offset], Work[Result]]) -> Work[Result]:
    """Run `search` from the log start offset on, again and again while the log changes under it."""
    log.check_usable()
    start = log.log_start_offset
    while True:
        try:
            return (yield from search(start))
        except _ChangedError as changed:
            start = max(changed.offset, log.log_start_offset)
        except CorruptDataError as error:
            raise CorruptRecordError(f"{log.topic_partition}: {error}") from error
        except OSError as error:
            raise log.log_directory.fail(error) from error


def offset_for_timestamp(log: LogState, timestamp: int) -> Work[TimestampedOffset | None]:
    """Return the first record, by offset, whose timestamp (ms) is `timestamp` or later."""

    def search(start: Offset) -> Work[TimestampedOffset | None]:
        for segment in log.segments.starting_with(start):
            place = Offset(max(segment.base_offset, start))
            if (cold := cold_indexes(log, segment)) is not None:
                yield from _pause(log, place, cold)
            if segment.largest_timestamp_ms >= timestamp:
                if (cold := cold_time_lookup(log, segment, timestamp, place)) is not None:
                    yield from _pause(log, place, cold)
                found = yield from _find_in(log, segment, timestamp, start)
                if found is not None:  # otherwise the records that are young enough lie below the log start offset
                    return found
            yield from _pause(log, max(segment.end_offset, start))
        return None

    return _guarded(log, search)


def _find_in(log: LogState, segment: LogSegment, timestamp: int, start: Offset) -> Work[TimestampedOffset | None]:
    position = segment.position_of(Offset(max(segment.older_until(timestamp), start)))
    for at, header in segment.scan(position):
        if header.max_timestamp >= timestamp and header.last_offset >= start:
            batch = yield from _batch(log, segment.file, at, header)
            record = yield from first_record(batch, timestamp, max(start, log.log_start_offset))
            yield from _pause(log, header.base_offset)
            if record is not None:
                return _found(batch, record)
        yield from _pause(log, header.next_offset, cold_next(segment, at, header))
    return None


def offset_of_max_timestamp(log: LogState) -> Work[TimestampedOffset | None]:
    """Return the first record that has the largest timestamp; None in a log without timestamps."""

    def search(start: Offset) -> Work[TimestampedOffset | None]:
        start = min(start, log.log_start_offset)  # each time from the beginning: the largest may have been taken away
        best: TimestampedOffset | None = None
        segments = []
        for segment in log.segments.starting_with(start):
            if (cold := cold_indexes(log, segment)) is not None:
                yield from _pause(log, start, cold)
            segments.append((-segment.max_timestamp.timestamp, segment))
            yield from _pause(log, start)
        for negated, segment in sorted(segments, key=lambda pair: pair[0]):
            timestamp, offset = -negated, segment.max_timestamp.offset
            if timestamp < 0 or (best is not None and timestamp < best.timestamp):
                break
            if (cold := cold_lookup(log, offset)) is not None:
                yield from _pause(log, start, cold)
            found = yield from _find_max_in(log, segment, timestamp, position=segment.position_of(offset))
            if found is None:
                found = yield from _max_of(log, segment)
            if found is not None and (best is None or (-found.timestamp, found.offset) < (-best.timestamp, best.offset)):
                best = found
        return best

    return _guarded(log, search)


def _find_max_in(log: LogState, segment: LogSegment, timestamp: int, *, position: int) -> Work[TimestampedOffset | None]:
    """Find the first record from `position` on with exactly this timestamp, in the first batch that has it as its largest.

    Return None if the index names a batch that has no such record any more: compaction has removed it, or it lies below
    the log start offset.
    """
    for at, header in segment.scan(position):
        if header.max_timestamp == timestamp:
            batch = yield from _batch(log, segment.file, at, header)
            record = yield from first_record(batch, timestamp, log.log_start_offset)
            yield from _pause(log, header.base_offset)
            return None if record is None or record[1] != timestamp else _found(batch, record)
        yield from _pause(log, header.next_offset, cold_next(segment, at, header))
    return None


def _max_of(log: LogState, segment: LogSegment) -> Work[TimestampedOffset | None]:
    """Find the record with the largest timestamp of a segment by reading its headers, and those batches that may hold it."""
    best: TimestampedOffset | None = None
    for at, header in segment.scan(segment.position_of(log.log_start_offset)):
        is_larger = best is None or header.max_timestamp > best.timestamp
        if header.max_timestamp >= 0 and header.record_count and is_larger and header.last_offset >= log.log_start_offset:
            batch = yield from _batch(log, segment.file, at, header)
            record = yield from _largest_timestamp(batch, log.log_start_offset)
            yield from _pause(log, header.base_offset)
            if record is not None and (best is None or record[1] > best.timestamp):
                best = _found(batch, record)
        yield from _pause(log, header.next_offset, cold_next(segment, at, header))
    return best


def first_record(batch: BatchView, timestamp: int, start_offset: Offset) -> Pausing[tuple[Offset, int] | None]:
    """Return offset and timestamp of the batch's first record at or after both `timestamp` and `start_offset`.

    Yields between pieces of about 256 kB, and holds one at a time. Raises InvalidRecordError, CorruptRecordError.
    """
    if not batch.attributes & LOG_APPEND_TIME_BIT:
        return (yield from _searched(batch, timestamp, start_offset, base_timestamp=batch.base_timestamp))
    found = yield from _searched(batch, _ANY_TIME, start_offset, base_timestamp=0)
    return None if found is None or batch.max_timestamp < timestamp else (found[0], batch.max_timestamp)


def _largest_timestamp(batch: BatchView, start_offset: Offset) -> Pausing[tuple[Offset, int] | None]:
    """Return offset and timestamp of the batch's first record with the largest timestamp from `start_offset` on."""
    if batch.attributes & LOG_APPEND_TIME_BIT:
        return (yield from first_record(batch, 0, start_offset))
    return (yield from _searched(batch, None, start_offset, base_timestamp=batch.base_timestamp))


def _searched(
    batch: BatchView, timestamp: int | None, start_offset: Offset, *, base_timestamp: int
) -> Pausing[tuple[Offset, int] | None]:
    """Search the records, which the batch has in memory: whatever happens to the log meanwhile."""
    walk = sections.Search(batch.record_count, batch.base_offset, base_timestamp, timestamp, start_offset)
    for piece in inflated(batch.compression, batch.payload):
        if walk.feed(piece):
            break
        yield None
    walk.finish()
    return walk.found


def _found(batch: BatchView, record: tuple[Offset, int]) -> TimestampedOffset:
    return TimestampedOffset(*record, batch.partition_leader_epoch)


def batch_at(file: SegmentFile, position: int, header: BatchView) -> BatchView:
    """Read a whole batch. Raises CorruptDataError if it is damaged."""
    batch = BatchView(memoryview(read_bytes(file, header.batch_length, position)))
    if not batch.is_valid:
        raise CorruptDataError(position, f"the batch at offset {batch.base_offset} has a wrong checksum")
    return batch


def legacy_offsets_before(log: LogState, timestamp: int, *, count: int) -> list[Offset]:
    """Return offsets for ListOffsets v0: of segments by the time of their files, latest first, at most `count`."""
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
