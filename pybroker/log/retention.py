"""Deletes old segments: those below the log start offset, then by `retention.bytes`, then by `retention.ms`.

Only whole segments are deleted, from the oldest on, and none that reaches beyond the high watermark. The active
segment is deleted too if it is due, unless it is empty; a new one takes its place. The age of a segment is that of
its youngest record.
First the log begins after the segments (`advance_start`), which the caller makes durable; then the files are deleted
(`delete_below_start`). A power failure may bring any of them back: without the log start offset there could be a gap
in the log.

Source: UnifiedLog.deleteOldSegments.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING

from pybroker.log import truncate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.log import Log
    from pybroker.log.segment import LogSegment
    from pybroker.model import Offset

logger = logging.getLogger(__name__)


def advance_start(log: Log, now_ms: int, high_watermark: Offset) -> bool:
    """Let the log begin after the segments that are due. Returns whether segments lie below its start. Raises KafkaError."""
    log.check_usable()
    config = log.config
    try:
        if "delete" in config.cleanup_policy and config.retention_bytes >= 0:
            surplus = log.size - config.retention_bytes

            def is_surplus(segment: LogSegment) -> bool:
                nonlocal surplus
                if surplus < segment.size:
                    return False
                surplus -= segment.size
                return True

            if surplus >= 0:
                _advance_while(log, now_ms, high_watermark, is_surplus, "retention.bytes")
        if "delete" in config.cleanup_policy and config.retention_ms >= 0:

            def is_old(segment: LogSegment) -> bool:
                return now_ms - segment.largest_timestamp_ms > config.retention_ms

            _advance_while(log, now_ms, high_watermark, is_old, "retention.ms")
    except OSError as error:
        raise log.log_directory.fail(error) from error
    return bool(_below_start(log))


def delete_below_start(log: Log, now_ms: int) -> int:
    """Delete the segments whose records all lie below the log start offset. Returns their number. Raises KafkaError."""
    due = _below_start(log)
    if due:
        log.guarded(lambda: truncate.delete_segments(log, due, now_ms))
    return len(due)


def _below_start(log: Log) -> list[LogSegment]:
    """Return the segments below the log start offset, never the active one."""
    segments = list(log.segments)
    return [segment for segment, following in itertools.pairwise(segments) if following.base_offset <= log.log_start_offset]


def _advance_while(log: Log, now_ms: int, high_watermark: Offset, is_due: Callable[[LogSegment], bool], reason: str) -> None:
    """Let the log begin after the oldest segments for which `is_due` is true, without a gap."""
    count, segments = 0, list(log.segments)
    for index, segment in enumerate(segments):
        is_active = index == len(segments) - 1
        end = log.log_end_offset if is_active else segments[index + 1].base_offset
        if (is_active and segment.size == 0) or end > high_watermark or not is_due(segment):
            break
        count += 1
    if not count:
        return
    if count == len(segments):
        log.roll(now_ms)
    start_offset = log.segments[count].base_offset
    if truncate.increment_log_start_offset(log, start_offset, high_watermark=high_watermark):
        logger.info("Deleting %d segments of %s below offset %d by %s", count, log.topic_partition, start_offset, reason)
