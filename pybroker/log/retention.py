"""Dropping old segments: those below the log start offset, then by `retention.bytes`, then by `retention.ms`.

Only whole segments from the oldest on, and none that reaches beyond the high watermark. The active segment goes too when it is
due, unless it is empty; a new one takes its place. A segment is as old as its youngest record says.

Source: UnifiedLog.deleteOldSegments.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.log import truncate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.log import Log
    from pybroker.log.segment import LogSegment

logger = logging.getLogger(__name__)


def delete_old_segments(log: Log, now_ms: int, high_watermark: int) -> int:
    """See `Log.delete_old_segments`."""
    log.check_usable()
    try:
        active = log.segments.active

        def is_below_start(segment: LogSegment, end: int) -> bool:
            return segment is not active and end <= log.log_start_offset

        deleted = _delete_while(log, now_ms, high_watermark, is_below_start, "its log start offset")
        config = log.config
        if "delete" not in config.cleanup_policy:
            return deleted
        if config.retention_bytes >= 0:
            surplus = log.size - config.retention_bytes

            def is_surplus(segment: LogSegment, _: int) -> bool:
                nonlocal surplus
                if surplus < segment.size:
                    return False
                surplus -= segment.size
                return True

            if surplus >= 0:
                deleted += _delete_while(log, now_ms, high_watermark, is_surplus, "retention.bytes")
        if config.retention_ms >= 0:

            def is_old(segment: LogSegment, _: int) -> bool:
                return now_ms - segment.largest_timestamp_ms > config.retention_ms

            deleted += _delete_while(log, now_ms, high_watermark, is_old, "retention.ms")
    except OSError as error:
        raise log.log_directory.fail(error) from error
    return deleted


def _delete_while(log: Log, now_ms: int, high_watermark: int, is_due: Callable[[LogSegment, int], bool], reason: str) -> int:
    """Drop segments from the oldest on as long as `is_due(segment, its end offset)`."""
    due: list[LogSegment] = []
    segments = list(log.segments)
    for index, segment in enumerate(segments):
        is_active = index == len(segments) - 1
        end = log.log_end_offset if is_active else segments[index + 1].base_offset
        if (is_active and segment.size == 0) or end > high_watermark or not is_due(segment, end):
            break
        due.append(segment)
    if not due:
        return 0
    if len(due) == len(segments):
        log.roll(now_ms)
    start_offset = log.segments[len(due)].base_offset
    logger.info("deleting %d segments of %s below offset %d by %s", len(due), log.topic_partition, start_offset, reason)
    truncate.increment_log_start_offset(log, start_offset, high_watermark=high_watermark)
    truncate.delete_segments(log, due, now_ms)
    return len(due)
