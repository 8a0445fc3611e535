"""Shortening a log at its end (a follower that must agree with its leader), and altogether.

Source: UnifiedLog.truncateTo, truncateFullyAndStartAt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.log import flush
from pybroker.log.deletion import delete_segments
from pybroker.log.recovery import recovery
from pybroker.log.segments.segment import LogSegment
from pybroker.log.segments.segment_files import CLEANED_SUFFIX, DELETED_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.log.log_state import LogState
    from pybroker.model import Offset


def truncate_to(log: LogState, offset: Offset) -> bool:
    """Drop every record at or above `offset`. Returns whether there was any."""
    log.check_usable()
    if offset >= log.log_end_offset:
        log.guarded(lambda: finish(log) if log.is_unfinished else log.epochs.truncate_from_end(log.log_end_offset))
        return False
    if offset < log.segments[0].base_offset:
        truncate_fully_and_start_at(log, offset)
        return True
    log.guarded(lambda: _truncate_to(log, offset))
    return True


def _truncate_to(log: LogState, offset: Offset) -> None:
    try:
        _drop_segments(log, [segment for segment in log.segments if segment.base_offset > offset])
        log.segments.active.truncate_to(offset, log.services.clock.time_ms())
        _end_at(log, offset)
        finish(log)
    except OSError:
        log.segments.active.release()  # the fast path of appends needs an open file; the others finish the truncation first
        raise


def _drop_segments(log: LogState, segments: Sequence[LogSegment]) -> None:
    """Take out the last segments, the youngest first, so that the log ends with its last segment whenever a step fails."""
    for segment in reversed(segments):
        try:
            delete_segments(log, [segment])
        finally:
            if segment.suffix == DELETED_SUFFIX:
                _end_at(log, segment.base_offset)


def _end_at(log: LogState, offset: Offset) -> None:
    log.is_unfinished = True
    log.log_end_offset = min(log.log_end_offset, offset)
    log.log_start_offset = min(log.log_start_offset, offset)
    flush.forget(log)


def finish(log: LogState) -> None:
    """Bring epochs, active segment and producers to the end of a log that was shortened.

    Raises OSError, after which it may be called again.
    """
    log.epochs.truncate_from_end(log.log_end_offset)
    log.segments.active.activate()
    if log.producers.map_end_offset != log.log_end_offset:
        recovery.rebuild_producers(log, log.log_end_offset, was_clean=False)
    log.is_unfinished = False


def truncate_fully_and_start_at(log: LogState, offset: Offset) -> None:
    """Drop everything; the log begins and ends at `offset`."""
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
        flush.forget(log)
        log.producers.clear(offset)
        log.is_unfinished = False
        log.epochs.clear()

    log.guarded(work)
