"""The segments of one log in order of their base offsets; the last one is the active one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from pybroker.model import OFFSET_END, Offset

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pybroker.log.segments.segment import LogSegment
    from pybroker.model import Offset


class Segments:
    """The segments of a log, never empty once the log is loaded. Each segment knows where the next one begins."""

    __slots__ = ("_base_offsets", "_segments", "active", "removals")

    active: LogSegment
    removals: int
    """The number of segments that were taken out: a reader that pauses sees by it whether a file may be gone."""

    def __init__(self) -> None:
        self._segments: list[LogSegment] = []
        self._base_offsets: list[Offset] = []
        self.removals = 0

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def __contains__(self, segment: LogSegment) -> bool:
        """Return whether it is a segment of the log, by its place: a walk for each of very many would be quadratic."""
        index = self.floor_index(segment.base_offset)
        return index >= 0 and self._segments[index] is segment

    def __getitem__(self, index: int) -> LogSegment:
        return self._segments[index]

    @property
    def base_offsets(self) -> list[Offset]:
        """The base offsets in ascending order, for reading only."""
        return self._base_offsets

    @property
    def size(self) -> int:
        """The bytes of data in all segments."""
        return sum(segment.size for segment in self._segments)

    def add(self, segment: LogSegment) -> None:
        """Put a segment in its place, which must be free."""
        index = bisect_left(self._base_offsets, segment.base_offset)
        assert self._base_offsets[index : index + 1] != [segment.base_offset], segment
        self._segments.insert(index, segment)
        self._base_offsets.insert(index, segment.base_offset)
        segment.end_offset = self._base_offsets[index + 1] if index + 1 < len(self._segments) else OFFSET_END
        if index:
            self._segments[index - 1].end_offset = segment.base_offset
        self.active = self._segments[-1]

    def remove(self, segment: LogSegment) -> None:
        """Take a segment out."""
        index = bisect_left(self._base_offsets, segment.base_offset)
        assert self._segments[index] is segment
        del self._segments[index], self._base_offsets[index]
        self.removals += 1
        if index:
            self._segments[index - 1].end_offset = segment.end_offset
        if self._segments:
            self.active = self._segments[-1]

    def floor_index(self, offset: Offset) -> int:
        """Return the index of the last segment that begins at or before `offset`; -1 if all begin later."""
        return bisect_right(self._base_offsets, offset) - 1

    def has(self, base_offset: Offset) -> bool:
        """Return whether a segment begins at exactly that offset."""
        index = self.floor_index(base_offset)
        return index >= 0 and self._base_offsets[index] == base_offset

    def before(self, offset: Offset) -> list[LogSegment]:
        """Return the segments of which all offsets lie below `offset`; never the active one."""
        return self._segments[: max(self.floor_index(offset), 0)]

    def starting_with(self, offset: Offset) -> Sequence[LogSegment]:
        """Return the segment that holds `offset` and all later ones."""
        return self._segments[max(self.floor_index(offset), 0) :]
