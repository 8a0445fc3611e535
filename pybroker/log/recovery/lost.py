"""Records that a start had to give up: each loss is named in the broker's log, and intact bytes are kept in files.

Files that are kept are in the partition's directory as `<first offset>-<end offset>.kept`; a second file of the same range gets
`-2` before the dot. They hold batches as a `.log` file does, with damaged bytes among them. No start mistakes them for a
segment, because ours and Apache Kafka's go by the ends of names. Apache Kafka also takes only a number before the first dot for
an offset, and these names have none there. They are removed with the partition, or by hand; `docs/recovery.md` explains what to
do with them.

A crash in between loses nothing: the kept bytes are durable under their new name before anything is cut.

Source of the names that Kafka looks for: LogLoader, LocalLog, LogFileUtils, ProducerStateManager.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pybroker.log.checkpoints import checkpoint
from pybroker.log.directories.strays import NAME_FILE, STRAY_SUFFIX, name_away
from pybroker.log.files.names import KEPT_SUFFIX
from pybroker.log.results import LostRange
from pybroker.log.segments.file_records import SegmentFile
from pybroker.log.segments.segment_files import SEGMENT_SUFFIXES
from pybroker.model import NO_OFFSET, ZERO_TOPIC_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.log.files.filesystem import Filesystem
    from pybroker.log.log_state import LogState
    from pybroker.log.segments.segment import LogSegment
    from pybroker.model import Offset

logger = logging.getLogger(__name__)

UNKNOWN: Final = NO_OFFSET
TEMPORARY_SUFFIX: Final = ".tmp"  # a start removes files with this ending
_COPY_BYTES: Final = 1 << 20


def note(log: LogState, *, first_offset: Offset, end_offset: Offset, reason: str, path: str | None = None) -> None:
    """Add a loss to `log.lost`, and log it."""
    lost = LostRange(first_offset=first_offset, end_offset=end_offset, path=path, reason=reason)
    log.lost.append(lost)
    logger.warning("%s: %s", log.topic_partition, lost)


def kept_path(filesystem: Filesystem, directory: str, *, first_offset: Offset, end_offset: Offset, of_bytes: int = -1) -> str:
    """Return a free name for the kept bytes of a range, or that of a file of the range with exactly `of_bytes` bytes."""
    end = f"{end_offset:020d}" if end_offset >= 0 else "unknown"
    stem = f"{directory}/{first_offset:020d}-{end}"
    path, number = stem + KEPT_SUFFIX, 2
    while filesystem.exists(path) and filesystem.file_size(path) != of_bytes:
        path, number = f"{stem}-{number}{KEPT_SUFFIX}", number + 1
    return path


def keep_segments(log: LogState, segments: Sequence[LogSegment], end_offset: Offset, reason: str) -> None:
    """Take whole segments out of the log and keep their data. The offsets of the last one end at `end_offset` (-1:
    unknown).

    The last segment is taken first, so that a crash leaves no hole. Raises OSError.
    """
    ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
    noted: list[tuple[LogSegment, Offset, str | None]] = []
    for segment, end in reversed(list(zip(segments, ends, strict=True))):
        path = None
        if segment.size:
            path = kept_path(log.filesystem, log.path, first_offset=segment.base_offset, end_offset=end)
        segment.set_data_aside(path)
        log.segments.remove(segment)
        log.producers.delete_snapshot(segment.base_offset)
        noted.append((segment, end, path))
    log.filesystem.sync_directory(log.path)
    for segment, end, path in reversed(noted):
        if path is not None:
            note(log, first_offset=segment.base_offset, end_offset=end, reason=reason, path=path)


def keep_bytes(log: LogState, segment: LogSegment, position: int, *, first_offset: Offset, end_offset: Offset) -> str:
    """Copy a segment's bytes from `position` on to a file that is kept. Returns its path. Raises OSError."""
    length = segment.size - position
    path = kept_path(log.filesystem, log.path, first_offset=first_offset, end_offset=end_offset, of_bytes=length)
    if log.filesystem.exists(path):  # from a start that ended before it had cut the segment
        log.filesystem.sync_directory(log.path)
        return path
    unfinished = f"{path}{TEMPORARY_SUFFIX}"
    copy = SegmentFile(log.filesystem, unfinished, create=True)
    log.filesystem.truncate(copy.fd, 0)
    while position < segment.size:
        data = segment.file.pread(min(_COPY_BYTES, segment.size - position), position)
        copy.append(data)
        position += len(data)
    copy.sync()
    log.filesystem.rename(unfinished, path)
    log.filesystem.sync_directory(log.path)
    return path


def set_segments_aside(log: LogState) -> str:
    """Move all segments of a log that is being loaded to a stray of their own, durably. Returns its path. Raises OSError."""
    filesystem, directory = log.filesystem, log.log_directory
    target = f"{directory.path}/{name_away(log.topic_partition, STRAY_SUFFIX)}"
    filesystem.make_directory(target)
    if log.topic_id != ZERO_TOPIC_ID:
        checkpoint.write_partition_metadata(filesystem, target, log.topic_id)
    filesystem.write_file(f"{target}/{NAME_FILE}", f"{log.topic_partition}\n".encode(), sync=True)
    for segment in list(log.segments):
        segment.release()
        log.segments.remove(segment)
        for suffix in SEGMENT_SUFFIXES:
            name = f"{segment.base_offset:020d}{suffix}"
            if filesystem.exists(f"{log.path}/{name}"):
                filesystem.rename(f"{log.path}/{name}", f"{target}/{name}")
    filesystem.sync_directory(target)
    filesystem.sync_directory(log.path)
    filesystem.sync_directory(directory.path)
    return target
