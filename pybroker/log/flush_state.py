"""The state of a log's flushes: how far the log is durable, and how far it must become so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.model import FIRST_OFFSET

if TYPE_CHECKING:
    from pybroker.log.segments.segment import LogSegment


class FlushState:
    """The state of a log's flushes.

    Attributes:
        target: the offset that the running flush, or the next one, must reach.
        is_under_way: a flush is in the thread.
        sealed: complete segments whose indexes may not be durable, though the recovery point may have passed them; those
            of them that the log still has are in order of the offsets.
        has_new_names: files were made, renamed or cut since the log's directory was last synced.
        is_new: the file with the topic's id was never synced.
        is_due: names or a snapshot must become durable, even if all records are.
        is_retry_due: a flush found no descriptor, and the directory will try it again.
        are_indexes_behind: those of the active segment may not be durable; a clean stop must sync them.
    """

    __slots__ = ("are_indexes_behind", "has_new_names", "is_due", "is_new", "is_retry_due", "is_under_way", "sealed", "target")

    def __init__(self) -> None:
        self.target = FIRST_OFFSET
        self.is_under_way = False
        self.sealed: dict[LogSegment, None] = {}
        self.has_new_names = False
        self.is_new = self.is_due = self.is_retry_due = False
        self.are_indexes_behind = False

    def seal(self, segment: LogSegment) -> None:
        """Note that `segment` is complete because a new segment is the active one."""
        self.sealed[segment] = None
        self.has_new_names = True
        self.are_indexes_behind = False
