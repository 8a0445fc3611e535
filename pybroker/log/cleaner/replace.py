"""New segments in the place of those that they were made of, so that a crash at any moment leaves the one or the other.

    .cleaned   being written; a start removes it
    .swap      complete and durable; a start puts it in the place of whatever lies in its range of offsets
    .deleted   an old segment; readers that have a slice of it may finish

The old segments may be gone when the new one is ready, by retention or since the log was shortened: then the new one is dropped.

Source: UnifiedLog.replaceSegments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pybroker.log.segment import SWAP_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pybroker.log.log import Log
    from pybroker.log.segment import LogSegment


class SegmentsChangedError(Exception):
    """What was read for a new segment is no longer what the log has."""


def replace(
    log: Log, olds: Sequence[LogSegment], new: LogSegment, *, truncations: int, now_ms: int
) -> Iterator[Callable[[], None]]:
    """Put `new`, written and with the suffix `.cleaned`, in the place of `olds`. What it gives is to be run in a thread.

    `truncations` is the log's of when its keys were first looked at: what was dropped since may have had the newer versions.

    Raises SegmentsChangedError, after which `new` is to be dropped; OSError.
    """

    def sync_directory() -> None:
        log.filesystem.sync_directory(log.path)

    log.filesystem.set_modified_ms(new.path, olds[-1].modified_ms)
    yield new.sync_work()
    _check(log, olds, truncations)
    new.change_suffix(SWAP_SUFFIX)
    yield sync_directory
    _check(log, olds, truncations)
    due_ms = now_ms + log.config.file_delete_delay_ms
    for old in olds:
        log.segments.remove(old)
        log.log_directory.remove_later(due_ms, old.mark_deleted())
        if old is not olds[0]:
            log.producers.delete_snapshot(old.base_offset)
    new.change_suffix("")
    log.segments.add(new)
    yield sync_directory


def _check(log: Log, olds: Sequence[LogSegment], truncations: int) -> None:
    log.check_usable()
    first = log.segments.floor_index(olds[0].base_offset)
    if truncations != log.truncations or first < 0 or list(log.segments)[first : first + len(olds)] != list(olds):
        raise SegmentsChangedError(f"{log.topic_partition} was shortened meanwhile")
