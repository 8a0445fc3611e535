# cython: annotation_typing=False
"""Slices of a segment that a fetch gets, in Python; `_slices_native` is this same text, compiled with the types of
`_slices_native.pxd`.

So every rule is written once, and both builds follow it. After a change here the extension must be built again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pybroker.model as model  # noqa: PLR0402  (the compiled text takes it from the package that it names)
from pybroker.log.results import LogOffsetMetadata
from pybroker.log.segments.fetched_records import EMPTY, FetchedRecords
from pybroker.log.segments.file_records import FileRecords

if TYPE_CHECKING:
    from pybroker.log.segments.segment import LogSegment
    from pybroker.model import Offset

__all__ = ["read_recent", "slice_from"]


def slice_from(  # noqa: PLR0917  (a call by position is a third of a call by name)
    segment: LogSegment, offset: Offset, batch: tuple[int, int], limit: int, bytes_max: int, min_one_batch: bool
) -> FetchedRecords:
    """Return what a read from `offset` gets, whose batch has this position and size: at most what lies before the position
    `limit`, and at most `bytes_max`, but with `min_one_batch` the whole batch.
    """
    position, first_batch_size = batch
    size = first_batch_size if min_one_batch and bytes_max < first_batch_size else bytes_max
    if position + size > limit:
        size = limit - position
    place = model.new_tuple(LogOffsetMetadata, (offset, segment.base_offset, position))
    if size <= 0:
        return FetchedRecords(records=EMPTY, size=0, offset_metadata=place, first_batch_size=first_batch_size)
    records = FileRecords(segment.open_file or segment.file, position, size)
    return model.new_tuple(FetchedRecords, (records, size, place, first_batch_size, size < first_batch_size))


def read_recent(
    segment: LogSegment, offset: Offset, bytes_max: int, min_one_batch: bool, end: int | None
) -> FetchedRecords | None:
    """Return what a read from `offset` to the position `end`, that of the segment's end if it is None, gets, if a batch that was
    written just now begins there.

    Returns None for any other offset, and if the data file is not open.
    """
    tail = segment.tail
    batch = tail.recent_place(offset)
    if batch is None or segment.open_file is None:
        return None
    limit = tail.size if end is None else end
    return slice_from(segment, offset, batch, limit, bytes_max, min_one_batch)
