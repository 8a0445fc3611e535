"""Reads a range of a segment into rows for Arrow record batches: the work of a Spark task.

Idea
    The reader reads a few MB of the file at once. The header of each batch decides: control batches, aborted batches and batches
    outside of the range or the time are skipped unopened. The others are decompressed, and `spark.columns` fills the buffers
    for Arrow.

Headers alone
    When no wanted column lies in the records (offsets without gaps, producer ids, codecs), the reader does not read batches but
    only their headers, in pieces of 4 kB. It checks no checksum then, because the checksum covers the bytes that it does not
    read. Times that the broker set are in the header too, so the reader does not decompress such batches for their times.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.log.files.names import offset_of
from pybroker.log.segments.file_records import SegmentFile
from pybroker.log.segments.segment_files import DATA_SUFFIX
from pybroker.model import (
    FIRST_OFFSET,
    NO_LEADER_EPOCH,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
)
from pybroker.records.batch import LOG_APPEND_TIME_BIT, MAGIC, BatchView
from pybroker.records.compression import CompressionType
from pybroker.records.errors import CorruptRecordError, InvalidRecordError
from pybroker.records.legacy import MessageView
from pybroker.spark.columns import OFFSET, TIMESTAMP, ColumnBuilder
from pybroker.spark.datasource.files import (
    FILESYSTEM,
    HEADER_WINDOW,
    CorruptSegmentError,
    Entry,
    Segment,
    SegmentLookup,
    Walker,
)
from pybroker.spark.datasource.plan import SegmentRange, lost
from pybroker.spark.datasource.snapshot import ATTEMPTS
from pybroker.spark.errors import PipelineError

if TYPE_CHECKING:
    from pybroker.spark.datasource.options import Options

DATA_WINDOW: Final = 4 << 20
ROWS_MAX: Final = 1 << 16
BYTES_MAX: Final = 8 << 20
NO_TIMESTAMP_TYPE: Final = -1
CODECS: Final = tuple(codec.name.lower() for codec in CompressionType)


class Run(NamedTuple):
    """Consecutive rows of one batch, and the fields of its header."""

    rows: int
    base_offset: Offset  # -1: magic 0 or 1, which has no base offset
    codec: str
    magic: int
    timestamp_type: int
    leader_epoch: LeaderEpoch
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    is_transactional: bool


class Rows(NamedTuple):
    """The content of an Arrow record batch, as `ColumnBuilder.take` returns it."""

    columns: Any
    runs: list[Run]


class RangeReader:
    """A reader of ranges into `Rows`. `wanted` are the flags of `spark.columns` for the parts of records that it reads."""

    def __init__(self, wanted: int, options: Options, *, rows_max: int = ROWS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._wanted = wanted
        self._options = options
        self._builder = ColumnBuilder(wanted)
        self._runs: list[Run] = []
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._aborted: dict[int, tuple[list[int], list[int]]] = {}
        self._range: SegmentRange

    def read(self, one: SegmentRange) -> Iterator[Rows]:
        """Yield the rows of a range. Raises PipelineError."""
        self._range = one
        self._aborted = _by_producer(one)
        try:
            for file, position, limit in _places(one, self._options):
                yield from self._read_file(file, position, limit=limit)
        except OSError as error:
            raise PipelineError(f"{one.segment.path} cannot be read: {error}") from error
        if self._builder.rows:
            yield self._take()

    def _take(self) -> Rows:
        runs, self._runs = self._runs, []
        return Rows(self._builder.take(), runs)

    def _read_file(self, file: SegmentFile, position: int, *, limit: int) -> Iterator[Rows]:
        """Yield the rows of a file at or after `position` that are in the range."""
        builder, end_offset = self._builder, self._range.end_offset
        is_whole = bool(self._wanted & ~OFFSET)
        walker = Walker(file, position, limit=limit, window=DATA_WINDOW if is_whole else HEADER_WINDOW, is_whole=is_whole)
        while (entry := walker.next()) is not None and not entry.begins_at_or_after(end_offset):
            try:
                if entry.magic == MAGIC:
                    self._add_batch(file, entry)
                else:
                    walker.position = self._add_messages(file, entry, limit)
            except CorruptRecordError as error:
                raise CorruptSegmentError(file.path, entry.position, error) from error
            if builder.rows >= self._rows_max or builder.data_bytes >= self._bytes_max:
                yield self._take()

    def _add_batch(self, file: SegmentFile, entry: Entry) -> None:
        one, wanted = self._range, self._wanted
        batch = BatchView(entry.buffer, entry.at)
        if batch.last_offset < one.start_offset or self._is_skipped(batch):
            return
        first, end = max(one.start_offset, batch.base_offset), min(one.end_offset, batch.next_offset)
        is_append_time = bool(batch.attributes & LOG_APPEND_TIME_BIT)
        has_gaps = batch.record_count <= batch.last_offset_delta
        if not wanted & ~(OFFSET | TIMESTAMP) and not has_gaps and (is_append_time or not wanted & TIMESTAMP):
            self._builder.append_run(end - first, first, batch.max_timestamp)
            self._note(batch, end - first)
            return
        if len(entry.buffer) - entry.at < entry.size:
            batch = BatchView(memoryview(file.pread(entry.size, entry.position)))
        if self._options.are_checksums_checked:
            batch.ensure_valid()
        rows = self._builder.append_section(
            batch.record_section(),
            batch.record_count,
            batch.base_offset,
            batch.base_timestamp,
            is_append_time,
            batch.max_timestamp,
            first,
            end,
        )
        self._note(batch, rows)

    def _is_skipped(self, batch: BatchView) -> bool:
        """Return whether none of its records is visible: markers, aborted batches, batches too old or certainly too young."""
        one = self._range
        if batch.is_control or batch.max_timestamp < one.min_timestamp or not batch.record_count:
            return True
        if batch.attributes & LOG_APPEND_TIME_BIT and batch.max_timestamp > one.max_timestamp:
            return True
        aborted = self._aborted.get(batch.producer_id) if batch.is_transactional else None
        if aborted is None:
            return False
        index = bisect_right(aborted[0], batch.base_offset) - 1
        return index >= 0 and batch.base_offset <= aborted[1][index]

    def _note(self, batch: BatchView, rows: int) -> None:
        if rows:
            run = Run(
                rows,
                batch.base_offset,
                CODECS[batch.compression],
                MAGIC,
                int(batch.timestamp_type),
                batch.partition_leader_epoch,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.is_transactional,
            )
            self._runs.append(run)

    def _add_messages(self, file: SegmentFile, entry: Entry, limit: int) -> int:
        """Add a wrapper, or the messages without a codec that were read. Return where the next entry begins."""
        one, buffer, at = self._range, entry.buffer, entry.at
        if len(buffer) - at < entry.size or not self._wanted & ~OFFSET:
            buffer, at = memoryview(file.pread(min(max(entry.size, DATA_WINDOW), limit - entry.position), entry.position)), 0
        message = MessageView(buffer, at)
        kind = int(message.timestamp_type) if message.magic else NO_TIMESTAMP_TYPE
        codec = message.compression
        if codec:
            if self._options.are_checksums_checked:
                message.ensure_valid()
            is_append_time, offset = bool(message.timestamp_type), message.offset if message.magic else FIRST_OFFSET
            inside = message.inner_messages()
            end, rows = self._builder.append_messages(
                inside, 0, offset, is_append_time, message.timestamp, one.start_offset, one.end_offset
            )
            if not end:
                raise InvalidRecordError("a compressed message that holds no messages")
            following = entry.position + entry.size
        else:
            end, rows = self._builder.append_messages(buffer, at, NO_OFFSET, False, 0, one.start_offset, one.end_offset)
            following = entry.position + end - at
        if rows:
            self._runs.append(
                Run(
                    rows,
                    NO_OFFSET,
                    CODECS[codec],
                    message.magic,
                    kind,
                    NO_LEADER_EPOCH,
                    NO_PRODUCER_ID,
                    NO_PRODUCER_EPOCH,
                    -1,
                    False,
                )
            )
        return following


def _by_producer(one: SegmentRange) -> dict[int, tuple[list[int], list[int]]]:
    """Return the first and last offsets of each producer's aborted transactions, which do not overlap."""
    found: dict[int, tuple[list[int], list[int]]] = {}
    for producer_id, first, last in sorted(one.aborted):
        firsts, lasts = found.setdefault(producer_id, ([], []))
        firsts.append(first)
        lasts.append(last)
    return found


def _places(one: SegmentRange, options: Options) -> Iterator[tuple[SegmentFile, int, int]]:
    """Yield the planned file, even if it was deleted a short while ago; otherwise the files that have these offsets now."""
    file = one.segment.open()
    if file is not None:
        yield file, one.position, min(one.segment.size, file.size)
    else:
        yield from _rewritten(one, options)


def _rewritten(one: SegmentRange, options: Options) -> Iterator[tuple[SegmentFile, int, int]]:
    """Yield the new files that have the offsets after a compaction. After retention or a deletion the offsets are gone."""
    directory, reason = one.segment.directory, f"{one.segment.path} was removed, by retention or by a deletion of the topic"
    for _ in range(ATTEMPTS):
        try:
            names = [entry.name for entry in FILESYSTEM.list(directory) if entry.name.endswith(DATA_SUFFIX)]
            found = sorted(offset for offset in map(offset_of, names) if offset >= 0)
            if not found or found[0] >= one.end_offset:
                lost(one.tp, start=one.start_offset, end=one.end_offset, reason=reason, options=options)
                return
            if found[0] > one.start_offset:
                lost(one.tp, start=one.start_offset, end=found[0], reason=reason, options=options)
            following = [*found[1:], one.end_offset]
            files = [
                (Segment.of(directory, base), SegmentFile(FILESYSTEM, Segment.of(directory, base).path))
                for base, end in zip(found, following, strict=True)
                if end > one.start_offset and base < one.end_offset
            ]
        except FileNotFoundError:
            if not FILESYSTEM.exists(directory):
                lost(one.tp, start=one.start_offset, end=one.end_offset, reason=reason, options=options)
                return
            continue  # another segment was rewritten between listing and opening
        for segment, file in files:
            yield file, SegmentLookup(segment, file).position_before(one.start_offset), file.size
        return
    raise PipelineError(f"{directory} changes faster than it can be read")
