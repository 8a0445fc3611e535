"""Finds out whether a read from an offset would wait for the disk, and reads what it needs in a thread first.

Idea
    The loop looks up an offset in the indexes of a segment and walks some headers of its data. If the page cache has none of
    that, each step waits for the disk, and all clients wait with it. So a lookup counts as cold if the segment's files are not
    open, if a window of its index is not in memory, or if the page cache lacks the headers where the walk begins or, by the next
    entry of the index, ends. Then a thread makes the same walk with a descriptor of its own, which brings the pages into memory.
    After that the loop reads as always.

    A lookup among the batches written last, or in the last bytes of the active segment, is never cold. Any other costs two or
    three system calls of a microsecond. A reader that catches up meets a new window of the index every 2 MB.

What the thread finds counts for nothing: an index that contradicts its data, or a file that is gone, is met and reported by the
read itself.
"""

from __future__ import annotations

import contextlib
import errno
from functools import partial
from typing import TYPE_CHECKING

from pybroker.log import batch_scan
from pybroker.log.batch_scan import WINDOW, CorruptDataError
from pybroker.log.entry_file import CorruptIndexError
from pybroker.log.file_records import HOT_TAIL, FileTooShortError
from pybroker.log.offset_index import OffsetIndex
from pybroker.log.time_index import TimeIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.filesystem import Filesystem
    from pybroker.log.log import Log
    from pybroker.log.segment import LogSegment
    from pybroker.model import Offset


def cold_lookup(log: Log, offset: Offset) -> Callable[[], None] | None:
    """Return what to run in a thread before `log.read` from `offset`; None if the read waits for no disk, or finds nothing."""
    if log.is_closed or not log.log_start_offset <= offset < log.log_end_offset or not log.filesystem.is_concurrent:
        return None
    segment = log.segments[max(log.segments.floor_index(offset), 0)]
    tail = segment.tail
    if offset in tail.recent or offset in tail.older or not segment.size:
        return None
    if _is_in_memory(segment, offset):
        return None
    return partial(_warm, segment.filesystem, segment.paths[:3], segment.base_offset, segment.size, offset)


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


class _Data:
    """A data file as `batch_scan` reads it."""

    __slots__ = ("_fd", "_filesystem")

    def __init__(self, filesystem: Filesystem, fd: int) -> None:
        self._filesystem, self._fd = filesystem, fd

    def pread(self, length: int, position: int) -> bytes:
        """Read exactly `length` bytes. Raises FileTooShortError, OSError."""
        data = self._filesystem.pread(self._fd, length, position)
        if len(data) < length:
            raise FileTooShortError(errno.EIO, "the file is shorter than it was")
        return data


def _warm(filesystem: Filesystem, paths: list[str], base_offset: Offset, size: int, offset: Offset) -> None:
    """Read what a lookup of `offset` reads, and what loading the indexes reads. Raises OSError."""
    data_path, index_path, times_path = paths
    index = OffsetIndex(filesystem, index_path, base_offset=base_offset, bytes_max=0)
    times = TimeIndex(filesystem, times_path, base_offset=base_offset, bytes_max=0)
    offsets = [offset]
    with contextlib.suppress(FileNotFoundError, CorruptIndexError):
        times.load_entries()
        if times.count:
            times.fields(0)
            offsets.append(times.entry(times.count - 1).offset)
    with contextlib.suppress(FileNotFoundError, CorruptIndexError):
        index.load_entries()
        if index.count:
            index.fields(0)
            index.fields(index.count - 1)
    with contextlib.suppress(FileNotFoundError):
        fd = filesystem.open(data_path, writable=False)
        try:
            data = _Data(filesystem, fd)
            for one in offsets:
                with contextlib.suppress(CorruptDataError, CorruptIndexError):
                    found = index.floor_fields(one - base_offset) if index.count else None
                    batch_scan.find(data, 0 if found is None else found[1], size, one)
        finally:
            filesystem.close(fd)
