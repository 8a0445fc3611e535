"""Finds out whether a read from an offset would wait for the disk, and reads what it needs in a thread first.

Idea
    The loop looks up an offset in the indexes of a segment and walks some headers of its data. If the page cache has none of
    that, each read waits for the disk, and all clients wait with it. A lookup is cold if the segment's files are not open or a
    window of its index is not in memory. It is also cold if the page cache lacks the headers at the two ends of the walk; the
    next entry of the index shows where the walk ends. A thread then makes the same walk with a descriptor of its own, which
    brings the pages into memory. After that the loop reads as always.

    A lookup among the batches written last, or in the last bytes of the active segment, is never cold. Any other costs two or
    three system calls of a microsecond. A reader that catches up meets a new window of the index every 2 MB.

The findings of the thread count for nothing, except for indexes that contradict their data: it rebuilds them (`index_rebuild`).
"""

from __future__ import annotations

import contextlib
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from pybroker.log.file_end import HOT_TAIL
from pybroker.log.segments import index_rebuild
from pybroker.log.segments.batch_scan import WINDOW, CorruptDataError, scan

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.log_state import LogState
    from pybroker.log.segments.file_records import SegmentFile
    from pybroker.log.segments.segment import LogSegment
    from pybroker.model import Offset
    from pybroker.records.batch import BatchView

HEADERS_AHEAD: Final = 64
"""The headers that a thread reads ahead of a search."""


def cold_lookup(log: LogState, offset: Offset) -> Callable[[], None] | None:
    """Return what to run in a thread before `read` from `offset`; None if the read waits for no disk, or finds nothing."""
    if log.is_closed or not log.log_start_offset <= offset < log.log_end_offset or not log.filesystem.is_concurrent:
        return None
    segment = log.segments[max(log.segments.floor_index(offset), 0)]
    if segment.tail.recent_place(offset) is not None or not segment.size:
        return None
    if _is_in_memory(segment, offset):
        return None
    return partial(index_rebuild.look, segment, log.path, log.config, offset)


def _is_in_memory(segment: LogSegment, offset: Offset) -> bool:
    if not segment.is_open or not segment.are_indexes_loaded:
        return False
    places = segment.offset_index.places_in_memory(offset)
    if places is None:
        return False
    file, size = segment.file, segment.size
    begin, end = places
    if file.is_growing and begin >= size - HOT_TAIL:
        return True
    is_resident, fd = segment.filesystem.is_resident, file.fd
    return all(is_resident(fd, at) for at in (begin, min(begin + WINDOW, size) - 1, min(end, size - 1)))


def cold_indexes(log: LogState, segment: LogSegment) -> Callable[[], None] | None:
    """Return what to run in a thread before the indexes of a segment are loaded; None if they are, or wait for no disk."""
    if segment.are_indexes_loaded or not segment.size or not log.filesystem.is_concurrent:
        return None
    return partial(index_rebuild.look, segment, log.path, log.config, segment.base_offset)


def cold_time_lookup(log: LogState, segment: LogSegment, timestamp: int, start: Offset) -> Callable[[], None] | None:
    """Return what to run in a thread before a segment is searched from `start` on for records from `timestamp` (ms) on; None if
    that waits for no disk.
    """
    if not segment.size or not log.filesystem.is_concurrent:
        return None
    if segment.are_indexes_loaded:
        place = segment.time_index.offset_in_memory(timestamp - 1)
        if place is not None and _is_in_memory(segment, max(place, start)):
            return None
    return partial(index_rebuild.look, segment, log.path, log.config, start, timestamp)


def cold_headers(segment: LogSegment, position: int) -> Callable[[], None] | None:
    """Return what to run in a thread before headers are read from `position` on; None if the next headers are in memory."""
    file, size = segment.file, segment.size
    if position >= size or (file.is_growing and position >= size - HOT_TAIL) or not segment.filesystem.is_concurrent:
        return None
    is_resident, fd = segment.filesystem.is_resident, file.fd
    if is_resident(fd, position) and is_resident(fd, min(position + WINDOW, size) - 1):
        return None
    return partial(_read_headers, file, position, size)


def cold_next(segment: LogSegment, position: int, header: BatchView) -> Callable[[], None] | None:
    """Return what to run in a thread before the header after the one at `position` is read; None if that is in memory."""
    behind = position + header.batch_length
    return None if behind // WINDOW == position // WINDOW else cold_headers(segment, behind)


def quietly(step: Callable[[], None]) -> Callable[[], None]:
    """Return `step` without its OSError: the loop meets the same error, and decides what it means."""

    def run() -> None:
        with contextlib.suppress(OSError):
            step()

    return run


def _read_headers(file: SegmentFile, position: int, size: int) -> None:
    with contextlib.suppress(CorruptDataError):
        for _ in islice(scan(file, position, size), HEADERS_AHEAD):
            pass
