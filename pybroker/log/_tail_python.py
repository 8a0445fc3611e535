# cython: annotation_typing=False, boundscheck=False, wraparound=False
"""The tail of a segment in Python; `_tail_native` is this same text, compiled with the types of `_tail_native.pxd`.

So every rule is written once, and both builds follow it. After a change here the extension must be built again. A
number of Python has 64 bits in the extension.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybroker.model import Offset

__all__ = ["SegmentTail"]

RELATIVE_OFFSET_MAX = 2**31 - 1
RECENT_BATCHES = 64
NO_TIMESTAMP = -1
UNUSUAL, WRITTEN, ENTRY_DUE = 0, 1, 2


class SegmentTail:
    """The state of a segment that an append reads and changes.

    Attributes:
        size: bytes of data.
        jitter_ms: how much earlier than `segment.ms` this segment rolls, so that not all partitions roll at once.
        created_ms: when the segment was made, which counts for batches without a timestamp.
        index_interval: bytes of data after which a batch gets an index entry.
        bytes_since_entry: bytes of the batches since the batch that has the last index entry.
        has_index_room: whether it is known that no index is full; false after each change of an index, until the segment has
        looked.
        first_timestamp: the largest of the first batch in ms, -1 if there is none; valid while there is data and
        `is_first_known`.
        max_timestamp, offset_of_max_timestamp: the largest of all batches in ms, -1 if there is none, and the last
        offset of the batch that has it; valid while `is_max_known`.
        recent, older: position and size of the batches that were just written, by their base offsets, and of those
        before.
    """

    __slots__ = (
        "base_offset",
        "bytes_since_entry",
        "created_ms",
        "first_timestamp",
        "has_index_room",
        "index_interval",
        "is_first_known",
        "is_max_known",
        "jitter_ms",
        "max_timestamp",
        "offset_of_max_timestamp",
        "older",
        "recent",
        "size",
    )

    def __init__(self, base_offset: Offset, index_interval: int, jitter_ms: int) -> None:
        self.base_offset = base_offset
        self.index_interval = index_interval
        self.jitter_ms = jitter_ms
        self.created_ms = 0
        self.size = 0
        self.bytes_since_entry = 0
        self.has_index_room = False
        self.first_timestamp = NO_TIMESTAMP
        self.is_first_known = False
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self.is_max_known = True
        self.recent: dict[Offset, tuple[int, int]] = {}
        self.older: dict[Offset, tuple[int, int]] = {}

    def should_roll(  # noqa: PLR0917  (a call by position is a third of a call by name)
        self,
        size: int,
        last_offset: Offset,
        max_timestamp: int,
        now_ms: int,
        segment_bytes: int,
        segment_ms: int,
        is_index_full: bool,
    ) -> bool:
        """Return whether the batches to append, of `size` bytes, belong into a new segment. `is_first_known` must be
        true.

        `segment_bytes` and `segment_ms` are the topic's present settings; without room in an index no batch may
        follow.
        """
        if self.size > segment_bytes - size or last_offset - self.base_offset > RELATIVE_OFFSET_MAX or is_index_full:
            return True
        if self.size == 0:
            return False
        # How much later than the first batch the new batch is, by their timestamps if they have any.
        if self.first_timestamp >= 0:
            age_ms = max(max_timestamp, NO_TIMESTAMP) - self.first_timestamp
        else:
            age_ms = now_ms - self.created_ms
        return age_ms > segment_ms - self.jitter_ms

    def _is_entry_due(self) -> bool:
        """Return whether the next batch gets an index entry."""
        return self.bytes_since_entry > self.index_interval

    def note(self, size: int, max_timestamp: int, offset_of_max_timestamp: Offset) -> bool:
        """Note batches that the index does not know yet. Returns whether they get an index entry."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = offset_of_max_timestamp
        is_entry_due = self._is_entry_due()
        self.bytes_since_entry = size if is_entry_due else self.bytes_since_entry + size
        return is_entry_due

    def lengthen(self, size: int, max_timestamp: int, offset_of_max_timestamp: Offset) -> bool:
        """Note batches that were written at the end. Returns the result of `note`."""
        if self.size == 0:
            self.first_timestamp = max_timestamp
            self.is_first_known = True
        self.size += size
        return self.note(size, max_timestamp, offset_of_max_timestamp)

    def remember(self, base_offset: Offset, position: int, size: int) -> None:
        """Remember where a batch was just written: readers at the end of the log ask for exactly this offset.

        At least `RECENT_BATCHES` are kept, at most twice that.
        """
        if len(self.recent) >= RECENT_BATCHES:
            self.older = self.recent
            self.recent = {}
        self.recent[base_offset] = (position, size)

    def recent_place(self, base_offset: Offset) -> tuple[int, int] | None:
        """Return position and size of the batch from `base_offset` on, if it is remembered."""
        return self.recent.get(base_offset) or self.older.get(base_offset)

    def forget(self) -> None:
        """Forget where batches were written: they may not be there any more, or no reader asks for them."""
        self.recent = {}
        self.older = {}

    def append(  # noqa: PLR0917  (as above)
        self,
        file: object,
        data: memoryview,
        first_offset: Offset,
        last_offset: Offset,
        max_timestamp: int,
        offset_of_max_timestamp: Offset,
        now_ms: int,
        segment_bytes: int,
        segment_ms: int,
        places: list[tuple[Offset, int]] | None,
    ) -> int:
        """Write batches that need no new segment, with the `append` of `file`, and remember them.

        `places` has the base offset and the size of each; None for a single one. Returns WRITTEN; ENTRY_DUE if the caller must
        add an index entry for them; or UNUSUAL, without having done anything, for any others. Raises OSError.
        """
        size = len(data)
        position = self.size
        if position and not (self.is_first_known and self.is_max_known):
            return UNUSUAL
        if not self.has_index_room:
            return UNUSUAL
        if self.should_roll(size, last_offset, max_timestamp, now_ms, segment_bytes, segment_ms, False):
            return UNUSUAL
        file.append(data)  # type: ignore[attr-defined]
        is_entry_due = self.lengthen(size, max_timestamp, offset_of_max_timestamp)
        if places is None:
            self.remember(first_offset, position, size)
        else:
            for base_offset, batch_size in places:
                self.remember(base_offset, position, batch_size)
                position += batch_size
        return ENTRY_DUE if is_entry_due else WRITTEN
