"""Reads the batches of a segment in chunks, whole and checked, and decompresses the records of many batches at once.

Work that may take long is done in another thread: reading what the page cache does not have, a single batch that is larger than a
chunk, and decompressing. The memory for decompressed records is bounded by `SECTIONS_BYTES` and one batch more.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

from pybroker.log.results import computed
from pybroker.records import kernels
from pybroker.records.batch import MAGIC, BatchView, claimed_size
from pybroker.records.compression import DECOMPRESSED_BYTES_MAX
from pybroker.records.errors import CorruptRecordError
from pybroker.sharing.work import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pybroker.log.cleaner.worker import CleanerWorker
    from pybroker.log.log import Log
    from pybroker.log.segments.segment import LogSegment
    from pybroker.sharing.work import Work

CHUNK: Final = 1 << 18
SECTIONS_BYTES: Final = 1 << 21
THREAD_BYTES: Final = 1 << 12
"""Fewer compressed bytes than these are decompressed on the loop, because a thread costs more time of the loop."""

LOOP_BYTES: Final = 1 << 18
"""A batch that is longer than this uncompressed is decompressed in the thread, however short it is."""

Section = bytes | memoryview

PIECE_RECORDS: Final = 2048
PIECE_BYTES: Final = 1 << 18
"""The bytes and records that are looked at between two yields: a batch of a few kilobytes may hold a million records, or
a hundred megabytes.
"""


def pieces_of(section: Section, record_count: int) -> Iterator[tuple[Section, int]]:
    """Yield the section of a batch's records in pieces, each with its number of records. Raises CorruptRecordError."""
    if record_count <= PIECE_RECORDS and len(section) <= PIECE_BYTES:
        yield section, record_count
        return
    view = memoryview(section)
    position = taken = 0
    while taken < record_count:
        count, end = kernels.take_records(view, position, min(PIECE_RECORDS, record_count - taken), PIECE_BYTES)
        if not count:
            break  # there are fewer records than the batch claims
        yield view[position:end], count
        position, taken = end, taken + count
    if taken != record_count or position != len(section):
        yield view[position:], record_count - taken  # which is refused as the whole section would be


class ChunkReader:
    """Reads a segment of `log` from `position` on, where a batch begins."""

    __slots__ = ("_file", "_length", "_log", "_position", "_segment", "_size", "_worker")

    def __init__(self, log: Log, segment: LogSegment, worker: CleanerWorker, position: int = 0) -> None:
        self._log = log
        self._segment = segment
        self._worker = worker
        self._file, self._size = segment.file, segment.size
        self._position = position
        self._length = CHUNK

    def read(self) -> Work[list[BatchView]]:
        """Return the next batches; none at the end of the segment. Raises CorruptRecordError, OSError."""
        while self._position < self._size:
            length, position = min(self._length, self._size - self._position), self._position
            if (cold := self._file.coldness(length, position)) is not None:
                yield from in_thread(self._log.log_directory.run_in_thread, cold)
            look = partial(_batches_in, self._segment, memoryview(self._file.pread(length, position)), position)
            found, at, claimed = (yield from computed(self._worker.run_codec, look)) if length > CHUNK else look()
            if not at and (claimed is None or position + claimed > self._size):
                raise CorruptRecordError(f"{self._segment.path}: no whole batch at byte {position}")
            self._position += at
            self._length = CHUNK if at or claimed is None else max(claimed, CHUNK)
            if found:
                return found
        return []


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


def sections_of(batches: Sequence[BatchView], worker: CleanerWorker) -> Work[list[Section]]:
    """Return the uncompressed records of the first batches: of all, or of as many as fit the memory.

    Raises CorruptRecordError, InvalidRecordError.
    """
    if sum(batch.batch_length for batch in batches if batch.compression) < THREAD_BYTES:
        with contextlib.suppress(CorruptRecordError):  # longer than that, or damaged: the thread finds out
            return _inflated(batches, bytes_max=LOOP_BYTES)
    return (yield from computed(worker.run_codec, lambda: _inflated(batches)))


def _inflated(batches: Sequence[BatchView], *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Section]:
    sections: list[Section] = []
    owned = 0
    for batch in batches:
        section = batch.record_section(bytes_max=bytes_max)
        sections.append(section)
        owned += len(section) if batch.compression else 0
        if owned >= SECTIONS_BYTES:
            break
    return sections
