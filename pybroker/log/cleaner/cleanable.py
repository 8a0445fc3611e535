"""Finds which part of a log may be cleaned, and how urgent that is.

    | clean                | cleanable                     | not yet                                            |
    log start       first dirty offset           first uncleanable offset                        log end offset

Only whole segments are cleaned. These are not cleanable yet: the active segment, records of open transactions, records that are
not replicated, records younger than `min.compaction.lag.ms`, and records that are not on the disk. A power failure may take the
newer value of a key, and then the older value must be there.

Source: LogCleanerManager.cleanableOffsets, LogToClean; KIP-58, KIP-354.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from pybroker.config.setting import LONG_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.log.log import Log
    from pybroker.log.segments.segment import LogSegment
    from pybroker.model import Offset


class Cleanable(NamedTuple):
    """A compacted log as the cleaner sees it. All offsets except `first_dirty_offset` are those of segments' starts."""

    log: Log
    first_dirty_offset: Offset
    first_uncleanable_offset: Offset
    clean_bytes: int
    cleanable_bytes: int
    truncations: int  # of the log when this was found
    delay_ms: int  # for how long `max.compaction.lag.ms` has required a cleaning; 0 if it does not

    @property
    def is_overdue(self) -> bool:
        """Whether `max.compaction.lag.ms` requires cleaning, however small the ratio is."""
        return self.delay_ms > 0

    @property
    def ratio(self) -> float:
        """The share of the cleanable part in the clean and the cleanable part; 0 to 1."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether `min.cleanable.dirty.ratio` or `max.compaction.lag.ms` requires cleaning."""
        if not self.cleanable_bytes:
            return False
        return self.is_overdue or self.ratio > self.log.config.min_cleanable_dirty_ratio


def cleanable(log: Log, first_dirty_offset: Offset, *, high_watermark: Offset, now_ms: int) -> Cleanable:
    """Return what there is to clean; `first_dirty_offset` is where the last cleaning ended. Raises OSError."""
    if not log.log_start_offset <= first_dirty_offset <= log.log_end_offset:
        first_dirty_offset = log.log_start_offset
    unstable = log.producers.first_unstable_offset
    stable = min(high_watermark, log.safe_recovery_point)
    if unstable is not None:
        stable = min(stable, unstable)
    segments = list(log.segments)
    clean_bytes = cleanable_bytes = 0
    first_uncleanable_offset = first_dirty_offset
    for segment, following in itertools.pairwise(segments):
        if following.base_offset <= first_dirty_offset:
            clean_bytes += segment.size
            continue
        if following.base_offset > stable or _is_too_young(segment, lag_ms=log.config.min_compaction_lag_ms, now_ms=now_ms):
            break
        first_uncleanable_offset = following.base_offset
        cleanable_bytes += segment.size
    return Cleanable(
        log,
        first_dirty_offset,
        first_uncleanable_offset,
        clean_bytes,
        cleanable_bytes,
        log.truncations,
        _delay_ms(log, segments, first_dirty_offset, now_ms),
    )


def _is_too_young(segment: LogSegment, *, lag_ms: int, now_ms: int) -> bool:
    return lag_ms > 0 and segment.largest_timestamp_ms > now_ms - lag_ms


def _delay_ms(log: Log, segments: Sequence[LogSegment], first_dirty_offset: Offset, now_ms: int) -> int:
    """Return for how long the oldest complete segment that is dirty has been older than `max.compaction.lag.ms`.

    A segment is as old as the timestamp of its first batch. Source: LogCleanerManager.maxCompactionDelay.
    """
    lag_ms_max = log.config.max_compaction_lag_ms
    if lag_ms_max >= LONG_MAX:
        return 0
    dirty = [segment for segment, following in itertools.pairwise(segments) if following.base_offset > first_dirty_offset]
    oldest = min((first for segment in dirty if (first := segment.first_timestamp) > 0), default=now_ms)
    return max(now_ms - lag_ms_max - oldest, 0)
