"""Shortening a log: at its end (a follower that must agree with its leader), altogether, and at its start (DeleteRecords).

Source: UnifiedLog.truncateTo, truncateFullyAndStartAt, maybeIncrementLogStartOffset; KIP-107.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.log.recovery import recovery
from pybroker.log.retention import record_retention
from pybroker.log.segments.segment import LogSegment
from pybroker.log.segments.segment_files import CLEANED_SUFFIX, DELETED_SUFFIX
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pybroker.log.log import Log
    from pybroker.model import Offset


def truncate_to(log: Log, offset: Offset) -> bool:
    """Drop every record at or above `offset`; this is `Log.truncate_to`."""
    log.check_usable()
    if offset >= log.log_end_offset:
        log.guarded(lambda: finish(log) if log.is_unfinished else log.epochs.truncate_from_end(log.log_end_offset))
        return False
    if offset < log.segments[0].base_offset:
        truncate_fully_and_start_at(log, offset)
        return True
    log.guarded(lambda: _truncate_to(log, offset))
    return True


def _truncate_to(log: Log, offset: Offset) -> None:
    try:
        _drop_segments(log, [segment for segment in log.segments if segment.base_offset > offset])
        log.segments.active.truncate_to(offset, log.services.clock.time_ms())
        _end_at(log, offset)
        finish(log)
    except OSError:
        log.segments.active.release()  # the fast path of appends needs an open file; the others finish the truncation first
        raise


def _drop_segments(log: Log, segments: Sequence[LogSegment]) -> None:
    """Take out the last segments, the youngest first, so that the log ends with its last segment whenever a step fails."""
    for segment in reversed(segments):
        try:
            delete_segments(log, [segment])
        finally:
            if segment.suffix == DELETED_SUFFIX:
                _end_at(log, segment.base_offset)


def _end_at(log: Log, offset: Offset) -> None:
    log.is_unfinished = True
    log.log_end_offset = min(log.log_end_offset, offset)
    log.log_start_offset = min(log.log_start_offset, offset)
    log.forget_flushes()


def finish(log: Log) -> None:
    """Bring epochs, active segment and producers to the end of a log that was shortened.

    Raises OSError, after which it may be called again.
    """
    log.epochs.truncate_from_end(log.log_end_offset)
    log.segments.active.activate()
    if log.producers.map_end_offset != log.log_end_offset:
        recovery.rebuild_producers(log, log.log_end_offset, was_clean=False)
    log.is_unfinished = False


def truncate_fully_and_start_at(log: Log, offset: Offset) -> None:
    """Drop everything and start at `offset`; this is `Log.truncate_fully_and_start_at`."""
    log.check_usable()

    def work() -> None:
        now_ms = log.services.clock.time_ms()
        # Made before the others are removed, under a name that no start takes for a segment's: from there on nothing
        # is opened.
        segment = LogSegment.create(log.filesystem, log.path, offset, log.config, now_ms=now_ms, suffix=CLEANED_SUFFIX)
        _drop_segments(log, list(log.segments))
        segment.change_suffix("")
        log.segments.add(segment)
        log.log_start_offset = log.log_end_offset = offset
        log.forget_flushes()
        log.producers.clear(offset)
        log.is_unfinished = False
        log.epochs.clear()

    log.guarded(work)


def increment_log_start_offset(log: Log, offset: Offset, *, high_watermark: Offset) -> bool:
    """Let the log begin at `offset`; this is `Log.increment_log_start_offset`."""
    log.check_usable()
    if offset > high_watermark:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log.topic_partition} cannot begin at {offset}, above its high watermark {high_watermark}",
        )
    if offset <= log.log_start_offset:
        return False
    log.log_start_offset = offset
    log.producers.on_log_start_offset(offset)
    log.guarded(lambda: log.epochs.truncate_from_start(offset))
    log.guarded(lambda: record_retention.note_head(log))
    return True


def delete_segments(log: Log, segments: Iterable[LogSegment]) -> None:
    """Take segments out of the log, in their order. Their files are renamed now and removed after `file.delete.delay.ms`.

    After OSError the log has exactly the segments whose data still has its name.
    """
    if log.replacement is not None:
        log.replacement.settle()
    due_ms = log.services.clock.monotonic_ms() + log.config.file_delete_delay_ms
    for segment in segments:
        try:
            log.log_directory.remove_later(due_ms, segment.mark_deleted())
        finally:
            if segment.suffix == DELETED_SUFFIX:
                log.segments.remove(segment)
        log.producers.delete_snapshot(segment.base_offset)
