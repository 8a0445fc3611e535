"""Finds out which part of a data file is damaged, and where intact batches follow it.

Idea
    A wrong length hides where the next batch begins. So the module searches for the batch after the damage: first
    where the damaged batch claims to end, then at every byte that could be the magic of a batch. Bytes that look like
    a header with offsets that may come next are accepted if their checksum is right.

Which of two batches whose offsets overlap is damaged
    The checksum does not cover the base offset, so each batch alone may look sound. The first batch is damaged if its
    checksum is wrong, or if it begins after a gap that it would fill exactly. If it would fit into that gap with room
    to spare, the damaged one cannot be identified: both count as damaged. Otherwise the second batch is damaged.
    No batch follows the last batch of a log: a base offset there that is too large is accepted.

Cost: the headers of the whole segment, once, after damage was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pybroker.log.segments.batch_scan import WINDOW, CorruptDataError, check, read_bytes
from pybroker.model import FIRST_OFFSET, OFFSET_END
from pybroker.records.batch import HEADER_SIZE, MAGIC, MAGIC_AT, BatchView

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pybroker.log.segments.file_records import SegmentFile
    from pybroker.model import Offset

CHUNK: Final = 1 << 20
_MAGIC_BYTE: Final = bytes([MAGIC])


@dataclass(slots=True, frozen=True, kw_only=True)
class Damage:
    """Bytes [position, end) of a data file hold no batch that can be trusted.

    The offsets [first_offset, end_offset) cannot be read; `end_offset` is where the next intact batch begins, or
    where the segment's offsets end.
    """

    position: int
    end: int
    first_offset: Offset
    end_offset: Offset
    reason: str


def intact_batches(
    file: SegmentFile, size: int, *, base_offset: Offset, end_offset: Offset = OFFSET_END
) -> Iterator[tuple[int, BatchView]]:
    """Yield positions and whole batches, with checked checksums, up to `size`.

    Raises CorruptDataError at the first batch that is torn, damaged or out of order; OSError.
    """
    position, chunk, chunk_start = 0, memoryview(b""), 0
    while position < size:
        if position + HEADER_SIZE > size:
            raise CorruptDataError(position, f"{size - position} bytes are too few for a header")
        at = position - chunk_start
        if at + HEADER_SIZE > len(chunk):
            chunk, chunk_start, at = memoryview(read_bytes(file, min(CHUNK, size - position), position)), position, 0
        batch = BatchView(chunk, at)
        check(batch, position, size, base_offset=base_offset, end_offset=end_offset)
        if at + batch.batch_length > len(chunk):
            length = min(max(CHUNK, batch.batch_length), size - position)
            chunk, chunk_start = memoryview(read_bytes(file, length, position)), position
            batch = BatchView(chunk, 0)
        if not batch.is_valid:
            raise CorruptDataError(position, f"the batch at offset {batch.base_offset} has a wrong checksum")
        if batch.base_offset > base_offset:
            _check_successor(file, position, batch, size, base_offset)
        yield position, batch
        base_offset = batch.next_offset
        position += batch.batch_length


def _check_successor(file: SegmentFile, position: int, batch: BatchView, size: int, base_offset: Offset) -> None:
    """Check a batch after a gap in which it could lie, if the next batch begins before it ends: its base offset is then
    damaged.

    Raises CorruptDataError.
    """
    following = _header_at(file, position + batch.batch_length, size)
    if following is None or following.base_offset > batch.last_offset:
        return
    if following.base_offset - base_offset > batch.last_offset_delta:
        reason = f"a batch has the offsets {batch.base_offset} to {batch.last_offset}, the next begins at {following.base_offset}"
        raise CorruptDataError(position, reason)


def _header_at(file: SegmentFile, position: int, size: int) -> BatchView | None:
    """Return the header at `position` if it could be one."""
    if position + HEADER_SIZE > size:
        return None
    batch = BatchView(memoryview(read_bytes(file, HEADER_SIZE, position)))
    try:
        check(batch, position, size)
    except CorruptDataError:
        return None
    return batch


def next_intact(
    file: SegmentFile, position: int, size: int, *, base_offset: Offset, end_offset: Offset = OFFSET_END
) -> tuple[int, BatchView] | None:
    """Return the first batch after `position`, where a damaged batch begins, with offsets in [base_offset, end_offset),
    or None.

    Its checksum is right. Raises OSError.
    """
    damaged = _header_at(file, position, size)
    if damaged is not None:
        guess = position + damaged.batch_length
        batch = _intact_at(file, guess, size, base_offset=base_offset, end_offset=end_offset)
        if batch is not None:
            return guess, batch
    start = position + 1
    while start + HEADER_SIZE <= size:
        chunk = read_bytes(file, min(CHUNK, size - start), start)
        at = chunk.find(_MAGIC_BYTE, MAGIC_AT)
        while at >= 0:
            first = int.from_bytes(chunk[at - MAGIC_AT : at - MAGIC_AT + 8], signed=True)
            if base_offset <= first < end_offset:
                candidate = start + at - MAGIC_AT
                batch = _intact_at(file, candidate, size, base_offset=base_offset, end_offset=end_offset)
                if batch is not None:
                    return candidate, batch
            at = chunk.find(_MAGIC_BYTE, at + 1)
        start += max(len(chunk) - MAGIC_AT, 1)
    return None


def first_intact(file: SegmentFile, position: int, size: int, *, base_offset: Offset) -> tuple[int, BatchView] | None:
    """Return the same as `next_intact`, but the batch may begin at `position` itself."""
    batch = _intact_at(file, position, size, base_offset=base_offset, end_offset=OFFSET_END)
    return (position, batch) if batch is not None else next_intact(file, position, size, base_offset=base_offset)


def _intact_at(file: SegmentFile, position: int, size: int, *, base_offset: Offset, end_offset: Offset) -> BatchView | None:
    if _header_at(file, position, size) is None:
        return None
    header = BatchView(memoryview(read_bytes(file, HEADER_SIZE, position)))
    try:
        check(header, position, size, base_offset=base_offset, end_offset=end_offset)
    except CorruptDataError:
        return None
    whole = BatchView(memoryview(read_bytes(file, header.batch_length, position)))
    return whole if whole.is_valid else None


SEGMENT_OFFSETS_MAX: Final = 1 << 31
"""The number of offsets that a segment may have, because indexes count them in 31 bits: a batch beyond it is damaged."""


class Survey:
    """One walk over all headers of a data file. `batches()` yields the intact ones; after it, `damage` lists all damage."""

    def __init__(self, file: SegmentFile, size: int, *, base_offset: Offset, end_offset: Offset = OFFSET_END) -> None:
        """Prepare the walk; no batch may reach `end_offset`."""
        self.damage: list[Damage] = []
        self._file = file
        self._size = min(size, file.filesystem.size(file.fd))
        self._missing = size - self._size  # bytes that another program has cut off
        self._end_offset = end_offset
        self._reach = min(end_offset, base_offset + SEGMENT_OFFSETS_MAX)
        self._window = memoryview(b"")
        self._window_start = 0
        self._floor = base_offset  # the least offset of the batch that is held back
        self._held: tuple[int, BatchView] | None = None  # the last batch, until the next batch confirms it
        self.next_offset = base_offset

    def batches(self) -> Iterator[tuple[int, BatchView]]:
        """Yield positions and headers of the intact batches. Raises OSError."""
        position = 0
        while position < self._size:
            try:
                batch = self._header(position)
                check(batch, position, self._size, base_offset=FIRST_OFFSET, end_offset=self._reach)
            except CorruptDataError as error:
                if self._held is not None and not self._is_held_valid():  # its length may be the damage
                    position, self._held, self.next_offset = self._held[0], None, self._floor
                yield from self._release()
                position = self._resume(first=position, position=position, reason=error.reason)
                continue
            if batch.base_offset < self.next_offset:
                position = yield from self._settle_overlap(position, batch)
                continue
            if self._held is not None and batch.base_offset > self.next_offset and not self._is_held_valid():
                self._drop_held(position, batch.base_offset, "a wrong checksum")
            yield from self._release()
            self._hold(position, batch)
            position += batch.batch_length
        yield from self._release()
        if self._missing and self.next_offset < self._end_offset:
            self.damage.append(
                Damage(
                    position=self._size,
                    end=self._size + self._missing,
                    first_offset=self.next_offset,
                    end_offset=self._end_offset,
                    reason=f"the file is {self._missing} bytes shorter than it was",
                )
            )

    def _header(self, position: int) -> BatchView:
        at = position - self._window_start
        if at + HEADER_SIZE > len(self._window):
            if position + HEADER_SIZE > self._size:
                raise CorruptDataError(position, f"{self._size - position} bytes are too few for a header")
            self._window = memoryview(read_bytes(self._file, min(WINDOW, self._size - position), position))
            self._window_start, at = position, 0
        return BatchView(self._window, at)

    def _hold(self, position: int, batch: BatchView) -> None:
        self._floor = self.next_offset
        self._held, self.next_offset = (position, batch), batch.next_offset

    def _release(self) -> Iterator[tuple[int, BatchView]]:
        if self._held is not None:
            yield self._held
            self._held = None

    def _drop_held(self, end: int, end_offset: Offset, reason: str) -> None:
        assert self._held is not None
        position, _ = self._held
        self.damage.append(Damage(position=position, end=end, first_offset=self._floor, end_offset=end_offset, reason=reason))
        self._held, self.next_offset = None, end_offset

    def _is_held_valid(self) -> bool:
        assert self._held is not None
        position, header = self._held
        return BatchView(memoryview(read_bytes(self._file, header.batch_length, position))).is_valid

    def _settle_overlap(self, position: int, batch: BatchView) -> Generator[tuple[int, BatchView], None, int]:
        """Handle the batch at `position`, which begins before the batch held back ends. Returns where to continue."""
        reason = f"the offset {batch.base_offset} follows {self.next_offset - 1}"
        if self._held is not None and batch.base_offset >= self._floor:
            held_position, held = self._held
            room = batch.base_offset - self._floor
            has_gap = held.base_offset > self._floor
            if not self._is_held_valid() or (has_gap and room == held.last_offset_delta + 1):
                self._drop_held(position, batch.base_offset, reason)
                return position
            if has_gap and room > held.last_offset_delta + 1:
                self._held, self.next_offset = None, self._floor
                return self._resume(first=held_position, position=position, reason=reason)
        yield from self._release()
        return self._resume(first=position, position=position, reason=reason)

    def _resume(self, *, first: int, position: int, reason: str) -> int:
        """Note damage from `first` on, and search for intact batches after its last damaged batch at `position`."""
        floor = self.next_offset
        found = next_intact(self._file, position, self._size, base_offset=floor, end_offset=self._reach)
        end, end_offset = (self._size, self._end_offset) if found is None else (found[0], found[1].base_offset)
        self.damage.append(Damage(position=first, end=end, first_offset=floor, end_offset=end_offset, reason=reason))
        self.next_offset = end_offset
        return end
