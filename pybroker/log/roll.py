"""Begins a new segment of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.log.flush import flush
from pybroker.model import FIRST_OFFSET, Offset

if TYPE_CHECKING:
    from pybroker.log.log_state import LogState
    from pybroker.log.segments.segment import LogSegment


def roll(log: LogState, now_ms: int, base_offset: Offset = FIRST_OFFSET) -> LogSegment:
    """Close the active segment and begin one at the log end offset, or at `base_offset` if that is larger. Raises OSError.

    After OSError the log is as it was, and appends to its active segment.
    """
    base_offset = max(base_offset, log.log_end_offset)
    active = log.segments.active
    if active.base_offset == base_offset:  # empty: begin it again
        log.segments.remove(active)
        active.release()
        try:
            return log.add_segment(base_offset, now_ms)
        except OSError:
            log.segments.add(active)
            raise
    active.write_last_timestamp()
    segment = log.add_segment(base_offset, now_ms)
    active.deactivate()
    log.flush_state.seal(active)
    log.producers.map_end_offset = base_offset
    log.producers.request_snapshot()
    flush(log, upto=base_offset)
    return segment
