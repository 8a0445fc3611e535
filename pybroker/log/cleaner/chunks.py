"""Reads the batches of a segment in chunks, whole and checked, and decompresses the records of many batches at once.

What may take long is a step for another thread: reading what the page cache does not have, a single batch that is larger
than a chunk, and decompressing. The memory for decompressed records is bounded by `SECTIONS_BYTES` and one batch more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.log.cleaner.steps import Computation
from pybroker.records.batch import MAGIC, BatchView, claimed_size
from pybroker.records.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from pybroker.log.cleaner.steps import Step
    from pybroker.log.segment import LogSegment

CHUNK: Final = 1 << 18
SECTIONS_BYTES: Final = 1 << 21
THREAD_BYTES: Final = 1 << 12
"""Fewer compressed bytes than these are decompressed on the loop, because a thread costs more time of the loop."""

Section = bytes | memoryview


def batches_of(segment: LogSegment, position: int = 0) -> Iterator[BatchView | Step]:
    """Yield the segment's batches one by one, and between them the steps that must be done before continuing."""
    for chunk in chunks_of(segment, position):
        if isinstance(chunk, list):
            yield from chunk
        else:
            yield chunk


def chunks_of(segment: LogSegment, position: int = 0) -> Iterator[list[BatchView] | Step]:
    """Yield lists of the segment's batches, and between them the steps that must be done before continuing.

    Raises CorruptRecordError, OSError.
    """
    file, size = segment.file, segment.size
    length = CHUNK
    while position < size:
        length = min(length, size - position)
        cold = file.coldness(length, position)
        if cold is not None:
            yield cold
        chunk = memoryview(file.pread(length, position))
        if length > CHUNK:
            large = Computation(lambda chunk=chunk, at=position: _batches_in(segment, chunk, at))  # type: ignore[misc]
            yield large
            found, at, claimed = large.result()
        else:
            found, at, claimed = _batches_in(segment, chunk, position)
        if found:
            yield found
        position += at
        length = CHUNK
        if not at:
            if claimed is None or position + claimed > size:
                raise CorruptRecordError(f"{segment.path}: no whole batch at byte {position}")
            length = max(claimed, CHUNK)


def _batches_in(segment: LogSegment, chunk: memoryview, position: int) -> tuple[list[BatchView], int, int | None]:
    """Return the whole batches of a chunk, where they end in it, and the size of the next batch if that is known."""
    found: list[BatchView] = []
    at = 0
    while (claimed := claimed_size(chunk, at)) is not None and at + claimed <= len(chunk):
        batch = BatchView(chunk, at)
        if batch.magic != MAGIC:
            raise CorruptRecordError(f"{segment.path}: magic {batch.magic} at byte {position + at}")
        batch.ensure_valid()
        found.append(batch)
        at += claimed
    return found, at, claimed


def sections_of(batches: Sequence[BatchView]) -> Generator[Step, None, list[Section]]:
    """Yield steps, and return the uncompressed records of the first batches: of all, or of as many as fit the memory.

    Raises CorruptRecordError, InvalidRecordError.
    """
    if sum(batch.batch_length for batch in batches if batch.compression) < THREAD_BYTES:
        return _inflated(batches)
    inflate = Computation(lambda: _inflated(batches))
    yield inflate
    return inflate.result()


def _inflated(batches: Sequence[BatchView]) -> list[Section]:
    sections: list[Section] = []
    owned = 0
    for batch in batches:
        section = batch.record_section()
        sections.append(section)
        owned += len(section) if batch.compression else 0
        if owned >= SECTIONS_BYTES:
            break
    return sections
