"""Lets a log begin later, by `retention.bytes` and `retention.ms`, and deletes the segments below its start.

`retention.granularity` decides what is deleted, from the oldest on, and nothing of it beyond the high watermark:
    record     each record that is due, also of the active segment: `record_retention` finds where the log has to begin.
               Nothing beyond the last stable offset is deleted. `cleaner.head` gives back the space of a part of a segment.
    segment    whole segments, as Kafka does. The active segment is deleted too if it is due, unless it is empty; a new
               one takes its place. The age of a segment is that of its youngest record.
First the log begins later (`advance`), which the caller makes durable; then the files of segments below the start
are deleted (`delete_below_start`). A power failure may bring any of them back: without the log start offset there could
be a gap in the log.

Source: UnifiedLog.deleteOldSegments.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.log.cold_lookup import cold_indexes, quietly
from pybroker.log.deletion import delete_segments
from pybroker.log.indexes.entry_file import CorruptIndexError
from pybroker.log.retention import record_retention
from pybroker.log.retention.log_start import increment_log_start_offset
from pybroker.log.roll import roll
from pybroker.log.segments.batch_scan import CorruptDataError
from pybroker.records.errors import CorruptRecordError
from pybroker.sharing.work import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.log_state import LogState
    from pybroker.log.segments.segment import LogSegment
    from pybroker.model import Offset
    from pybroker.sharing.work import Work

logger = logging.getLogger(__name__)


def advance(log: LogState, now_ms: int, high_watermark: Offset) -> Work[bool]:
    """Let the log begin after what is due, and return whether segments lie below its start.

    The caller gives up where segments were taken out of the log meanwhile. Raises KafkaError.
    """
    log.check_usable()
    try:
        if "delete" in log.config.cleanup_policy:
            if record_retention.is_by_record(log):
                try:
                    yield from _advance_by_record(log, now_ms, high_watermark)
                except (CorruptDataError, CorruptIndexError, CorruptRecordError) as error:
                    logger.warning(
                        "Retention of %s deletes whole segments only in this pass, because a batch cannot be read: %s",
                        log.topic_partition,
                        error,
                    )
                    yield from _advance_by_segment(log, now_ms, high_watermark)
            else:
                yield from _advance_by_segment(log, now_ms, high_watermark)
    except OSError as error:
        raise log.log_directory.fail(error) from error
    return bool(_below_start(log))


def _advance_by_record(log: LogState, now_ms: int, high_watermark: Offset) -> Work[None]:
    config, unstable = log.config, log.producers.first_unstable_offset
    upto = high_watermark if unstable is None else min(high_watermark, unstable)
    if config.retention_bytes >= 0:
        _begin_at(
            log,
            offset=min(record_retention.start_by_size(log, config.retention_bytes), upto),
            upto=upto,
            reason="retention.bytes",
        )
    if config.retention_ms >= 0 and log.log_start_offset < upto:
        truncations = log.truncations
        offset = yield from record_retention.start_by_time(log, now_ms - config.retention_ms, upto)
        log.check_usable()
        if truncations != log.truncations or config is not log.config:
            return  # what was found may be gone, or be kept by now; the next pass looks again
        _begin_at(log, offset=offset, upto=upto, reason="retention.ms")
    if log.log_start_offset == log.log_end_offset and log.segments.active.size:
        roll(log, now_ms)
    record_retention.note_head(log)


def _begin_at(log: LogState, *, offset: Offset, upto: Offset, reason: str) -> None:
    if increment_log_start_offset(log, offset, high_watermark=upto):
        logger.info("%s begins at offset %d by %s", log.topic_partition, offset, reason)


def _advance_by_segment(log: LogState, now_ms: int, high_watermark: Offset) -> Work[None]:
    config = log.config
    if config.retention_bytes >= 0:
        surplus = log.size - config.retention_bytes

        def is_surplus(segment: LogSegment) -> bool:
            nonlocal surplus
            if surplus < segment.size:
                return False
            surplus -= segment.size
            return True

        if surplus >= 0:
            yield from _advance_while(log, now_ms, high_watermark, is_surplus, "retention.bytes")
    if config.retention_ms >= 0:

        def is_old(segment: LogSegment) -> bool:
            return now_ms - segment.largest_timestamp_ms > config.retention_ms

        yield from _advance_while(log, now_ms, high_watermark, is_old, "retention.ms")


def delete_below_start(log: LogState, *, count_max: int | None = None) -> int:
    """Delete the segments whose records all lie below the log start offset, the oldest first, at most `count_max`.

    Returns their number. Raises KafkaError.
    """
    due = _below_start(log)[:count_max]
    if due:
        log.guarded(lambda: delete_segments(log, due))
    return len(due)


def _below_start(log: LogState) -> list[LogSegment]:
    """Return the segments below the log start offset, never the active one."""
    return log.segments.before(log.log_start_offset)


def _advance_while(
    log: LogState, now_ms: int, high_watermark: Offset, is_due: Callable[[LogSegment], bool], reason: str
) -> Work[None]:
    """Let the log begin after the oldest segments for which `is_due` is true, without a gap."""
    count, truncations, config = 0, log.truncations, log.config
    for segment in list(log.segments):
        if (cold := cold_indexes(log, segment)) is not None:
            yield from in_thread(log.log_directory.run_in_thread, quietly(cold))
        is_active = segment is log.segments.active
        end = log.log_end_offset if is_active else segment.end_offset
        if (is_active and segment.size == 0) or end > high_watermark or not is_due(segment):
            break
        count += 1
        if not is_active:
            yield None  # the age of a segment may have to be read from its files
    log.check_usable()
    if not count or truncations != log.truncations or config is not log.config:
        return  # what was found may be gone, or be kept by now; the next pass looks again
    if count == len(log.segments):
        roll(log, now_ms)
    start_offset = log.segments[count].base_offset
    if increment_log_start_offset(log, start_offset, high_watermark=high_watermark):
        logger.info("Deleting %d segments of %s below offset %d by %s", count, log.topic_partition, start_offset, reason)
