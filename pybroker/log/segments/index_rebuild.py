"""Checks the indexes of a segment in a thread, and rebuilds them beside the old ones if they contradict the data.

The loop notices the contradiction itself when it looks something up. Then it takes the files that are ready, by two renames,
instead of a walk over all headers, which takes about 3 us for each batch. The files have names that a start removes.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Final

from pybroker.log.indexes.entry_file import CorruptIndexError
from pybroker.log.segments import segment_reading
from pybroker.log.segments.batch_scan import CorruptDataError
from pybroker.log.segments.segment import LogSegment

if TYPE_CHECKING:
    from pybroker.config.topic import TopicConfig
    from pybroker.model import Offset

_SUFFIX: Final = ".rebuilt.tmp"
_NUMBERS: Final = itertools.count(1)  # two threads may rebuild the same index


def look(segment: LogSegment, directory: str, config: TopicConfig, offset: Offset, timestamp: int | None = None) -> None:
    """Load the indexes and look `offset` up, with files of their own, so that the page cache has what that reads. In any thread.

    With a `timestamp` (ms), look up where records of that time begin, at or behind `offset`.

    If the indexes contradict the data, `segment.rebuilt` has new ones afterwards. Raises OSError.
    """
    base_offset, filesystem = segment.base_offset, segment.filesystem
    with contextlib.suppress(FileNotFoundError):  # deleted or moved meanwhile
        copy = LogSegment.open(filesystem, directory, base_offset, config, suffix=segment.suffix)
        copy.end_offset = segment.end_offset
        try:
            segment_reading.check_indexes(copy)
            if timestamp is not None:
                offset = max(copy.time_index.lookup(timestamp - 1).offset, offset)
            segment_reading.find(copy, offset)
        except (CorruptIndexError, CorruptDataError, FileNotFoundError):
            if not segment.is_active and segment.rebuilt is None and filesystem.exists(copy.path):
                _rebuild(segment, copy)
        finally:
            copy.let_go()


def _rebuild(segment: LogSegment, copy: LogSegment) -> None:
    number = next(_NUMBERS)
    for index in (copy.offset_index, copy.time_index):
        index.path += f".{number}{_SUFFIX}"
    try:
        copy.rebuild_indexes()
    except OSError:  # the loop meets the same error, and decides what it means
        for index in (copy.offset_index, copy.time_index):
            with contextlib.suppress(OSError):
                segment.filesystem.remove(index.path)
    else:
        segment.rebuilt = copy
