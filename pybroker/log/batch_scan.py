"""Walking the batch headers of a data file without reading the records between them.

A read of the file brings a window of 4 kB, so that small batches cost one system call together and large ones little more than
their header. The layout of a header is in `records.batch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.records.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.log.file_records import SegmentFile

WINDOW: Final = 4096
LENGTH_MIN: Final = HEADER_SIZE - LOG_OVERHEAD


class CorruptDataError(Exception):
    """No batch begins at `position` of the file, or it does not end within the file."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at byte {position}: {reason}")
        self.position = position


def scan(file: SegmentFile, position: int, end: int) -> Iterator[tuple[int, BatchView]]:
    """Positions and headers of the batches from `position`, where one must begin, to `end`. The views hold no records.

    Raises CorruptDataError where there is none; OSError.
    """
    window, window_start = memoryview(b""), position
    while position < end:
        at = position - window_start
        if at + HEADER_SIZE > len(window):
            if position + HEADER_SIZE > end:
                raise CorruptDataError(position, f"{end - position} bytes are no header")
            window = memoryview(file.pread(min(WINDOW, end - position), position))
            window_start, at = position, 0
        batch = BatchView(window, at)
        check(batch, position, end)
        yield position, batch
        position += batch.batch_length


def check(batch: BatchView, position: int, end: int) -> None:
    """Whether this can be a batch that ends at or before `end`. Raises CorruptDataError."""
    if batch.magic != MAGIC:
        raise CorruptDataError(position, f"magic {batch.magic}")
    if batch.batch_length < HEADER_SIZE or position + batch.batch_length > end:
        raise CorruptDataError(position, f"a batch of {batch.batch_length} bytes where {end - position} are left")
    if batch.last_offset_delta < 0 or batch.base_offset < 0:
        raise CorruptDataError(position, f"offsets from {batch.base_offset} on, {batch.last_offset_delta} more")


def find(file: SegmentFile, position: int, end: int, offset: int, *, first_last_offset: int = -1) -> tuple[int, int] | None:
    """Position and size of the first batch from `position` on that ends at or after `offset`; None when there is none.

    `first_last_offset` is where the index says that the batch at `position` ends; -1 when it says nothing. The hot path of every
    fetch: the same as a search through `scan`, without its objects. Raises CorruptDataError, also when the index is wrong;
    OSError.
    """
    unpack = HEADER.unpack_from
    window, window_start, start = b"", position, position
    while position < end:
        at = position - window_start
        if at + HEADER_SIZE > len(window):
            if position + HEADER_SIZE > end:
                raise CorruptDataError(position, f"{end - position} bytes are no header")
            window, window_start, at = file.pread(min(WINDOW, end - position), position), position, 0
        base_offset, length, _, magic, _, _, delta, _, _, _, _, _, _ = unpack(window, at)
        if magic != MAGIC or length < LENGTH_MIN or position + length + LOG_OVERHEAD > end:
            raise CorruptDataError(position, f"magic {magic}, a batch of {length} bytes where {end - position} are left")
        if position == start and first_last_offset >= 0 and base_offset + delta != first_last_offset:
            raise CorruptDataError(position, f"a batch up to {base_offset + delta} where the index has {first_last_offset}")
        if base_offset + delta >= offset:
            return position, length + LOG_OVERHEAD
        position += length + LOG_OVERHEAD
    return None
