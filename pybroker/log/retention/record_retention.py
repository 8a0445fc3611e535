"""Finds where a log has to begin by `retention.ms` and `retention.bytes`, to the record: `retention.granularity=record`.

By time
    The log begins at the record that ListOffsets finds for (now - `retention.ms`): the first record that is young enough. A
    record of the future therefore keeps all that follows it. A record without a timestamp stays for as long as the next record
    that has one; if none follows, it stays until `retention.bytes` deletes it. Batches are meant, of which no producer gives only
    some of the records a timestamp. The time index shows where to look; from there on batch headers are read, and the records of
    one batch. The records that were read and are too old are deleted, so no pass reads them again.

By size
    The bytes count from the batch that holds the log start offset. A log is cut between two batches, and keeps at
    least `retention.bytes`.

The search by time yields after each header and after each piece of a batch's records, so the loop can do other work, and memory
never holds what a batch inflates to. A large batch is read in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.log.cold_lookup import cold_indexes, cold_lookup, cold_next, cold_time_lookup, quietly
from pybroker.log.indexes.entry_file import CorruptIndexError
from pybroker.log.results import computed
from pybroker.log.segments.batch_scan import CorruptDataError
from pybroker.log.timestamp_lookup import batch_at, first_record
from pybroker.model import Offset
from pybroker.sharing.work import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.log_state import LogState
    from pybroker.log.segments.segment import LogSegment
    from pybroker.records.batch import BatchView
    from pybroker.sharing.work import Work

LARGE_BYTES: Final = 1 << 16
"""Longer batches are read in the thread of the log's directory."""


def is_by_record(log: LogState) -> bool:
    """Return whether retention of this log deletes single records."""
    return log.config.retention_granularity == "record"


def head_position(log: LogState) -> int:
    """Return where the batch that holds the log start offset begins in the first segment that has data above that offset.

    Returns 0 where damage hides it. Raises OSError.
    """
    offset = log.log_start_offset
    segment = log.segments.starting_with(offset)[0]
    if offset <= segment.base_offset:
        return 0
    known, position = segment.known_start
    if known != offset:
        was_open = segment.is_open
        try:
            found = segment.find_batch(offset, log.log_end_offset)
        except (CorruptDataError, CorruptIndexError):
            return 0
        position = found[0] if found is not None else segment.size
        segment.known_start = (offset, position)
        if not was_open:
            segment.let_go()
    return position


def note_head(log: LogState) -> None:
    """Look for the batch with the log start offset, so that `known_size` is right. Raises OSError."""
    if is_by_record(log):
        head_position(log)


def retained_size(log: LogState) -> int:
    """Return the bytes that retention counts: from the batch with the log start offset on, or of all segments. Raises OSError."""
    if not is_by_record(log):
        return log.size
    return sum(segment.size for segment in log.segments.starting_with(log.log_start_offset)) - head_position(log)


def reported_size(log: LogState) -> int:
    """Return `retained_size` for a report, which no failure may stop: an error takes the directory offline."""
    if log.is_closed or log.log_directory.is_offline:
        return log.size
    try:
        return retained_size(log)
    except OSError as error:
        log.log_directory.fail(error)
        return log.size


def known_size(log: LogState) -> int:
    """Return `retained_size` as of the last time that it was looked for, without reading a file: for the metrics' thread."""
    if not is_by_record(log):
        return log.size
    segments = log.segments.starting_with(log.log_start_offset)
    offset, position = segments[0].known_start
    head = position if offset <= log.log_start_offset else 0
    return sum(segment.size for segment in segments) - head


# --- by size ---


def start_by_size(log: LogState, bytes_min: int) -> Offset:
    """Return where the first batch begins that must stay so that `bytes_min` bytes stay. Raises CorruptDataError, OSError."""
    surplus = retained_size(log) - bytes_min
    if surplus <= 0:
        return log.log_start_offset
    position = head_position(log)
    for segment in log.segments.starting_with(log.log_start_offset):
        if segment.size - position > surplus:
            return _batch_at(segment, position + surplus, log.log_start_offset)
        surplus -= segment.size - position
        position = 0
    return log.log_end_offset


def _batch_at(segment: LogSegment, target: int, log_start_offset: Offset) -> Offset:
    """Return the base offset of the batch with the byte `target`."""
    for position, batch in segment.scan(segment.position_before(target)):
        if position + batch.batch_length > target:
            return Offset(batch.base_offset)
    return log_start_offset  # the data is shorter than the segment: nothing is cut


# --- by time ---


def start_by_time(log: LogState, oldest_ms: int, upto: Offset) -> Work[Offset]:
    """Return the first offset that stays, at most `upto`. Records before `oldest_ms` are too old.

    Raises CorruptDataError, OSError.
    """
    search = _Search(log, oldest_ms, upto)
    head = log.segments.starting_with(log.log_start_offset)[0]
    offset, timestamp = head.young_start
    if offset == log.log_start_offset and timestamp >= oldest_ms:
        return offset
    yield None
    return (yield from search.run())


class _Search:
    """One search for the first record that is young enough.

    `unstamped` is the first of the records without a timestamp after the last record that has one; None without any.
    """

    def __init__(self, log: LogState, oldest_ms: int, upto: Offset) -> None:
        self.log = log
        self.oldest_ms = oldest_ms
        self.upto = upto
        self.start = log.log_start_offset
        self.unstamped: Offset | None = None

    def run(self) -> Work[Offset]:
        """Look through the segments."""
        for segment in list(self.log.segments.starting_with(self.start)):
            if segment.base_offset >= self.upto:
                return self._end(self.upto)
            was_open = segment.is_open
            yield from self._after(cold_indexes(self.log, segment))
            largest = segment.max_timestamp.timestamp
            if largest >= self.oldest_ms:
                found = yield from self._look_in(segment)
                if found is not None:
                    return found
            elif largest >= 0:
                yield from self._pass_over(segment)
            elif segment.size:
                self._note_unstamped(max(segment.base_offset, self.start))
            if not was_open:
                segment.let_go()
        return self._end(min(self.log.log_end_offset, self.upto))

    def _end(self, offset: Offset) -> Offset:
        return offset if self.unstamped is None else min(self.unstamped, offset)

    def _note_unstamped(self, offset: Offset) -> None:
        if self.unstamped is None:
            self.unstamped = offset

    def _pass_over(self, segment: LogSegment) -> Work[None]:
        """Pass a segment whose records are all too old; only records without a timestamp at its end are looked for."""
        yield from self._after(cold_lookup(self.log, segment.offset_index.last_offset))
        position = segment.position_of(segment.offset_index.last_offset)
        last = [batch for _, batch in segment.scan(position)]
        if last and last[-1].max_timestamp >= 0:
            self.unstamped = None
            return
        largest_at = segment.max_timestamp.offset
        yield from self._after(cold_lookup(self.log, largest_at))
        for position, batch in segment.scan(segment.position_of(largest_at)):
            if batch.last_offset >= largest_at:
                self._pass_batch(batch)
            yield from self._after(cold_next(segment, position, batch))

    def _pass_batch(self, batch: BatchView) -> None:
        if batch.max_timestamp >= 0:
            self.unstamped = None
        elif batch.record_count:
            self._note_unstamped(Offset(max(batch.base_offset, self.start)))

    def _look_in(self, segment: LogSegment) -> Work[Offset | None]:
        """Look for a record that is young enough; the log start offset may lie behind the one that the segment has."""
        place = Offset(max(segment.base_offset, self.start))
        yield from self._after(cold_time_lookup(self.log, segment, self.oldest_ms, place))
        older_until = segment.older_until(self.oldest_ms)
        if older_until > max(segment.base_offset, self.start):
            self.unstamped = None  # a batch with a timestamp ends there
        from_offset = max(older_until, self.start)
        for position, batch in segment.scan(segment.position_of(Offset(from_offset))):
            yield from self._after(cold_next(segment, position, batch))
            if batch.last_offset < self.start:
                continue
            if batch.base_offset >= self.upto:
                return self._end(self.upto)
            if batch.max_timestamp < self.oldest_ms or not batch.record_count:
                self._pass_batch(batch)
            else:
                found = yield from self._look_at(segment, position, batch)
                if found is not None:
                    return found
        return None

    def _after(self, cold: Callable[[], None] | None) -> Work[None]:
        """Give others their turn, or wait for what the directory's thread must read first."""
        if cold is not None:
            yield from in_thread(self.log.log_directory.run_in_thread, quietly(cold))
        else:
            yield None

    def _look_at(self, segment: LogSegment, position: int, header: BatchView) -> Work[Offset | None]:
        file = segment.file
        if header.batch_length > LARGE_BYTES or file.coldness(header.batch_length, position) is not None:
            batch = yield from computed(self.log.log_directory.run_in_thread, lambda: batch_at(file, position, header))
        else:
            batch = batch_at(file, position, header)
        young = yield from first_record(batch, self.oldest_ms, self.start)
        if young is None:  # what is young enough lies below the log start offset
            self._pass_batch(batch)
            return None
        offset, timestamp = young
        stamped = yield from first_record(batch, 0, self.start)
        if stamped is not None and stamped[0] < offset:
            self.unstamped = None
        found = self._end(min(offset, self.upto))
        if found == offset:
            segment.young_start = (found, timestamp)
        return found
