"""Reads the batch headers of a data file without reading the records between them.

Each read of the file fetches a window of 4 kB, so that small batches share one system call, and large batches cost
little more than their header. The layout of a header is in `records.batch`.

What is checked, and what is not
    Of each header: magic, size, and that offsets grow from batch to batch and stay within the segment's range. The
    checksum does not cover the base offset, so a damaged one shows only by its neighbours: a batch after a gap must
    still end before the next batch begins. Checksums are checked only where an offset is not found between two
    batches, because a damaged size of a batch in offsets looks the same as a gap that compaction left. The reader
    detects all other damage by the checksum; Kafka leaves it to the reader, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.log.file_end import FileTooShortError
from pybroker.model import FIRST_OFFSET, NO_OFFSET, OFFSET_END, Offset
from pybroker.records.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.log.segments.file_records import SegmentFile


WINDOW: Final = 4096
LENGTH_MIN: Final = HEADER_SIZE - LOG_OVERHEAD


class CorruptDataError(Exception):
    """No batch of the segment begins at `position` of the file, or it does not end within the file."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at byte {position}: {reason}")
        self.position = position
        self.reason = reason


def read_bytes(file: SegmentFile, length: int, position: int) -> bytes:
    """Read exactly `length` bytes. Raises CorruptDataError if the file has become shorter than it was; OSError."""
    try:
        return file.pread(length, position)
    except FileTooShortError as error:
        raise CorruptDataError(position, "the file is shorter than it was") from error


def scan(
    file: SegmentFile, position: int, end: int, *, base_offset: Offset = FIRST_OFFSET, end_offset: Offset = OFFSET_END
) -> Iterator[tuple[int, BatchView]]:
    """Yield positions and headers of the batches from `position`, where a batch must begin, to `end`. The views hold no
    records.

    Their offsets must lie in [base_offset, end_offset) and grow. Raises CorruptDataError where there is no such
    batch; OSError.
    """
    window, window_start = memoryview(b""), position
    while position < end:
        at = position - window_start
        if at + HEADER_SIZE > len(window):
            if position + HEADER_SIZE > end:
                raise CorruptDataError(position, f"{end - position} bytes are no header")
            window = memoryview(read_bytes(file, min(WINDOW, end - position), position))
            window_start, at = position, 0
        batch = BatchView(window, at)
        check(batch, position, end, base_offset=base_offset, end_offset=end_offset)
        yield position, batch
        base_offset = batch.next_offset
        position += batch.batch_length


def check(
    batch: BatchView, position: int, end: int, *, base_offset: Offset = FIRST_OFFSET, end_offset: Offset = OFFSET_END
) -> None:
    """Check that this can be a batch with offsets in [base_offset, end_offset) that ends at or before `end`.

    Raises CorruptDataError.
    """
    if batch.magic != MAGIC:
        raise CorruptDataError(position, f"magic {batch.magic}")
    if batch.batch_length < HEADER_SIZE or position + batch.batch_length > end:
        raise CorruptDataError(position, f"a batch of {batch.batch_length} bytes where {end - position} are left")
    if batch.last_offset_delta < 0 or batch.base_offset < base_offset or batch.last_offset >= end_offset:
        raise _out_of_order(
            position=position, first=batch.base_offset, last=batch.last_offset, base_offset=base_offset, end_offset=end_offset
        )


def _out_of_order(*, position: int, first: Offset, last: Offset, base_offset: Offset, end_offset: Offset) -> CorruptDataError:
    limit = "" if end_offset == OFFSET_END else f" and below {end_offset}"
    return CorruptDataError(
        position, f"a batch with the offsets {first} to {last} where they must be at least {base_offset}{limit}"
    )


def find(
    file: SegmentFile,
    position: int,
    end: int,
    offset: Offset,
    *,
    first_last_offset: Offset = NO_OFFSET,
    base_offset: Offset = FIRST_OFFSET,
    end_offset: Offset = OFFSET_END,
) -> tuple[int, int] | None:
    """Return position and size of the first batch from `position` on that ends at or after `offset`; None if there is
    none.

    `first_last_offset` is where the batch at `position` ends by the index, or a batch soon after it: an append of several
    batches, such as a follower's, has one entry, with the end of the last and the position of the first. -1 if the index
    has no entry; then the batch at `position` begins at or after `base_offset`. No batch may reach `end_offset`. This is
    the hot path of every fetch: a search through `scan` without its objects. Raises CorruptDataError, also if the index is
    wrong; OSError.
    """
    unpack = HEADER.unpack_from
    window, window_start, previous = b"", position, -1
    while position < end:
        at = position - window_start
        if at + HEADER_SIZE > len(window):
            if position + HEADER_SIZE > end:
                raise CorruptDataError(position, f"{end - position} bytes are no header")
            window, window_start, at = read_bytes(file, min(WINDOW, end - position), position), position, 0
        first, length, _, magic, _, _, delta, _, _, _, _, _, _ = unpack(window, at)
        if magic != MAGIC or length < LENGTH_MIN or position + length + LOG_OVERHEAD > end:
            raise CorruptDataError(position, f"magic {magic}, a batch of {length} bytes where {end - position} are left")
        last = first + delta
        if delta < 0 or first < base_offset or last >= end_offset:
            raise _out_of_order(position=position, first=first, last=last, base_offset=base_offset, end_offset=end_offset)
        if last <= first_last_offset:
            if last == first_last_offset:
                first_last_offset = NO_OFFSET
        elif first_last_offset >= 0:
            raise CorruptDataError(position, f"a batch up to {last} where the index has {first_last_offset}")
        elif first != base_offset and last >= offset:
            _check_order(file, position=position, following=position + length + LOG_OVERHEAD, end=end, last=last)
            if previous >= 0 and offset < first:
                _check_valid(file, position=previous, following=position)
        if last >= offset:
            return position, length + LOG_OVERHEAD
        previous, base_offset = position, last + 1
        position += length + LOG_OVERHEAD
    return None


def _check_order(file: SegmentFile, *, position: int, following: int, end: int, last: Offset) -> None:
    """Check that the batch at `position`, up to offset `last`, ends before the batch at `following` begins.

    Compaction leaves gaps before batches, but a damaged base offset looks like a gap too.

    Raises CorruptDataError, OSError.
    """
    if following + HEADER_SIZE <= end:
        next_first = int.from_bytes(read_bytes(file, 8, following), signed=True)
        if next_first <= last:
            raise CorruptDataError(position, f"a batch up to offset {last} before one from {next_first} on")


def _check_valid(file: SegmentFile, *, position: int, following: int) -> None:
    """Check the checksum of the batch in [position, following), because its size in offsets is doubted.

    Raises CorruptDataError, OSError.
    """
    batch = BatchView(memoryview(read_bytes(file, following - position, position)))
    if not batch.is_valid:
        raise CorruptDataError(position, f"the batch at offset {batch.base_offset} has a wrong checksum")
