"""Finds the segments among the files of a partition's directory, and settles which of two that overlap counts.

These are the first steps of opening a log. Lost indexes are rebuilt. A segment that is missing between others is noticed by
the index that it left behind, and an index without a data file is removed. Files with other names are not touched.

Source: LogLoader.loadSegmentFiles.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Final

from pybroker.log.files.names import offset_of
from pybroker.log.recovery import lost
from pybroker.log.recovery.lost import UNKNOWN
from pybroker.log.segments.batch_scan import CorruptDataError
from pybroker.log.segments.damage import intact_batches
from pybroker.log.segments.segment import LogSegment
from pybroker.log.segments.segment_files import (
    DATA_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from pybroker.model import OFFSET_END

if TYPE_CHECKING:
    from pybroker.log.log_state import LogState
    from pybroker.model import Offset

logger = logging.getLogger(__name__)

INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


def open_segments(log: LogState, names: set[str]) -> None:
    """Fill `log.segments`; `names` are those of the files in the log's directory. Raises OSError."""
    filesystem, path = log.filesystem, log.path
    data = sorted(name for name in names if name.endswith(DATA_SUFFIX) and offset_of(name) >= 0)
    for name in data:
        log.segments.add(LogSegment.open(filesystem, path, offset_of(name), log.config))
    for segment, name in zip(list(log.segments), data, strict=True):
        stem = name.removesuffix(DATA_SUFFIX)
        if stem + OFFSET_INDEX_SUFFIX not in names or stem + TIME_INDEX_SUFFIX not in names:
            logger.warning("Rebuilding the missing indexes of %s", segment.path)
            segment.rebuild_indexes()
        if stem + TRANSACTION_INDEX_SUFFIX not in names:
            segment.transaction_index.note_missing()
    stems = {name.removesuffix(DATA_SUFFIX) for name in data}
    for name in sorted(names):
        stem = name.partition(".")[0]
        if name.endswith(INDEX_SUFFIXES) and stem not in stems:
            if name == stem + OFFSET_INDEX_SUFFIX and offset_of(name) >= 0:
                _note_missing(log, offset_of(name))
            filesystem.remove(f"{path}/{name}")


def _note_missing(log: LogState, base_offset: Offset) -> None:
    """Note a missing segment: there is an index at `base_offset`, but no data. Segments before all others were deleted."""
    offsets = log.segments.base_offsets
    if offsets and base_offset > offsets[0]:
        end_offset = min((offset for offset in offsets if offset > base_offset), default=UNKNOWN)
        lost.note(
            log,
            first_offset=base_offset,
            end_offset=end_offset,
            reason=f"the data file of the segment at {base_offset} is missing",
        )


def drop_cut_segments(log: LogState) -> None:
    """Remove segments below the log start offset that reach into the next one, which was made of their end.

    A power failure has undone the change of their names, or Kafka was stopped in the middle of it. Raises OSError.
    """
    for segment, following in itertools.pairwise(list(log.segments)):
        if following.base_offset <= log.log_start_offset:
            limit, segment.end_offset = segment.end_offset, OFFSET_END
            next_offset, _ = segment.read_end()
            segment.end_offset = limit
            if next_offset > limit:
                logger.warning("%s is deleted: %s has been made of its end", segment.path, following.path)
                log.segments.remove(segment)
                segment.mark_deleted()()
                log.producers.delete_snapshot(segment.base_offset)


# --- after an unclean stop ---


def settle_overlaps(log: LogState) -> None:
    """Set aside segments that are in the range of the rewritten segment before them, so that no offset is served twice.

    A rewrite has batches beyond where the next segment begins, which no other segment has, and the time of the last
    segment that it was made of. A crash of the machine may have kept its name and lost the renames of the segments
    that it replaces. The rewritten one wins, because it was durable before it got its name. Reads the end of each
    segment, so only of compacted logs.
    """
    if "compact" not in log.config.cleanup_policy:
        return
    index = 0
    while index < len(log.segments) - 1:
        _settle_overlap(log, log.segments[index])
        index += 1


def _settle_overlap(log: LogState, segment: LogSegment) -> None:
    limit, segment.end_offset = segment.end_offset, OFFSET_END
    next_offset, _ = segment.read_end()
    segment.end_offset = limit
    if next_offset <= limit or not _is_intact(segment):
        return
    covered = [one for one in log.segments if segment.base_offset < one.base_offset < next_offset]
    if segment.modified_ms < max(one.modified_ms for one in covered):
        return  # not a rewrite of those: its last batch is damaged, and readers will get an error
    for one in covered:
        end_offset, _ = one.read_end()
        if end_offset > next_offset:
            lost.keep_segments(log, [one], end_offset, f"the segment begins within {segment.path}, which ends at {next_offset}")
        else:
            logger.warning("%s is deleted, because compaction has made %s of it", one.path, segment.path)
            log.segments.remove(one)
            one.mark_deleted()()
            log.producers.delete_snapshot(one.base_offset)


def _is_intact(segment: LogSegment) -> bool:
    try:
        for _ in intact_batches(segment.file, segment.size, base_offset=segment.base_offset):
            pass
    except CorruptDataError:
        return False
    return True
