"""Finds out whether a read from an offset would wait for the disk, and reads what it needs in a thread first.

Idea
    The loop looks up an offset in the indexes of a segment and walks some headers of its data. If the page cache has none of
    that, each step waits for the disk, and all clients wait with it. So a lookup counts as cold if the segment's files are not
    open, if a window of its index is not in memory, or if the page cache lacks the headers where the walk begins or, by the next
    entry of the index, ends. Then a thread makes the same walk with a descriptor of its own, which brings the pages into memory.
    After that the loop reads as always.

    A lookup among the batches written last, or in the last bytes of the active segment, is never cold. Any other costs two or
    three system calls of a microsecond. A reader that catches up meets a new window of the index every 2 MB.

What the thread finds counts for nothing, except for indexes that contradict their data: it rebuilds them (`index_rebuild`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pybroker.log import index_rebuild
from pybroker.log.batch_scan import WINDOW
from pybroker.log.file_records import HOT_TAIL

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.log import Log
    from pybroker.log.segment import LogSegment
    from pybroker.model import Offset


def cold_lookup(log: Log, offset: Offset) -> Callable[[], None] | None:
    """Return what to run in a thread before `log.read` from `offset`; None if the read waits for no disk, or finds nothing."""
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
