"""Takes segments out of a log, and removes their files later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.log.segments.segment_files import DELETED_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybroker.log.log_state import LogState
    from pybroker.log.segments.segment import LogSegment


def delete_segments(log: LogState, segments: Iterable[LogSegment]) -> None:
    """Take segments out of the log, in their order. Their files are renamed now and removed after `file.delete.delay.ms`.

    After OSError the log has exactly the segments whose data still has its name.
    """
    if log.replacement is not None:
        log.replacement.settle()
    due_ms = log.services.clock.monotonic_ms() + log.config.file_delete_delay_ms
    for segment in segments:
        try:
            log.log_directory.remove_later(due_ms, segment.mark_deleted())
        finally:
            if segment.suffix == DELETED_SUFFIX:
                log.segments.remove(segment)
        log.producers.delete_snapshot(segment.base_offset)
