"""Opening a log that exists: what an unclean stop left is put in order, and no intact batch is lost.

Steps
    1. what a deletion or a compaction left half done is settled: see `leftovers`
    2. a segment without its indexes gets them rebuilt; indexes without a segment are removed
    3. after an unclean stop every segment from the recovery point on is read: each batch must be whole, have its checksum and
       continue the offsets. The first that does not ends the log: the file is cut there and later segments are dropped.
    4. the end offset is read from the last segment; leader epochs and the log start offset are brought into its range
    5. the producers are taken from the youngest snapshot and what the log has after it

The recovery point moves only with fsync, so it is never above what the disk holds. When only the process died, the page cache
has everything it wrote: the scan finds the last batch that was written whole.

Source: LogLoader, LogSegment.recover of Kafka.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pybroker.log import leftovers, strays
from pybroker.log.append import complete_transaction, producer_batch
from pybroker.log.batch_scan import CorruptDataError, check
from pybroker.log.entry_file import CorruptIndexError
from pybroker.log.names import offset_of
from pybroker.log.segment import RELATIVE_OFFSET_MAX, LogSegment
from pybroker.log.segment_files import DATA_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from pybroker.records.batch import HEADER_SIZE, BatchView
from pybroker.records.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.log.log import Log

logger = logging.getLogger(__name__)

CHUNK: Final = 1 << 20
INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


def load(log: Log, *, was_clean: bool, recovery_point: int, log_start_offset: int, is_start_offset_certain: bool = True) -> None:
    """Fill a fresh `Log` from its directory. Blocks. Raises OSError."""
    leftovers.settle(log)
    _open_segments(log)
    log.log_start_offset = log_start_offset
    are_epochs_sound = log.epochs.load()
    log.producers.find_snapshots()
    log.producers.remove_stray_snapshots(set(log.segments.base_offsets))
    if not was_clean and len(log.segments):
        _recover_from(log, recovery_point)
    _find_end(log, is_start_offset_certain=is_start_offset_certain)
    log.recovery_point = log.log_end_offset if was_clean else min(recovery_point, log.log_end_offset)
    log.log_start_offset = max(log.log_start_offset, log.segments[0].base_offset)
    if not are_epochs_sound or _are_epochs_incomplete(log):
        _rebuild_epochs(log)
    log.epochs.truncate_from_end(log.log_end_offset)
    log.epochs.truncate_from_start(log.log_start_offset)
    rebuild_producers(log, log.log_end_offset, was_clean=was_clean)
    log.producers.remove_stray_snapshots(set(log.segments.base_offsets))


# --- step 2: files ---


def _open_segments(log: Log) -> None:
    filesystem, path = log.filesystem, log.path
    names = {entry.name for entry in filesystem.list(path) if entry.is_file()}
    data = sorted(name for name in names if name.endswith(DATA_SUFFIX) and offset_of(name) >= 0)
    for name in data:
        segment = LogSegment.open(filesystem, path, offset_of(name), log.config)
        stem = name.removesuffix(DATA_SUFFIX)
        if stem + OFFSET_INDEX_SUFFIX not in names or stem + TIME_INDEX_SUFFIX not in names:
            logger.warning("rebuilding the missing indexes of %s", segment.path)
            segment.rebuild_indexes()
        log.segments.add(segment)
    stems = {name.removesuffix(DATA_SUFFIX) for name in data}
    for name in names:
        if name.endswith(INDEX_SUFFIXES) and name.partition(".")[0] not in stems:
            filesystem.remove(f"{path}/{name}")


# --- step 3: after an unclean stop ---


def _recover_from(log: Log, recovery_point: int) -> None:
    segments = log.segments.starting_with(recovery_point)
    logger.info("recovering %s from offset %d: %d segments", log.topic_partition, segments[0].base_offset, len(segments))
    rebuild_producers(log, segments[0].base_offset, was_clean=False)
    for index, segment in enumerate(segments):
        log.producers.map_end_offset = segment.base_offset
        log.producers.take_snapshot()
        dropped = _recover_segment(log, segment)
        if dropped:
            logger.warning("%s ends at byte %d: dropped %d bytes that are no intact batch", segment.path, segment.size, dropped)
            for later in segments[index + 1 :]:
                log.segments.remove(later)
                later.mark_deleted()()
                log.producers.delete_snapshot(later.base_offset)
            break


def _recover_segment(log: Log, segment: LogSegment) -> int:
    """Read everything, rebuild all indexes, cut what is not intact. Returns the bytes dropped."""
    segment.reset_indexes()
    segment.transaction_index.reset()
    end = 0
    for position, batch in _intact_batches(segment):
        segment.note_batch(batch.last_offset, batch.max_timestamp, position, batch.batch_length)
        log.epochs.assign_if_newer(batch.partition_leader_epoch, batch.base_offset)
        _note_producer(log, segment, batch)
        end = position + batch.batch_length
    dropped = segment.truncate_data(end)
    segment.write_last_timestamp()
    return dropped


def _intact_batches(segment: LogSegment) -> Iterator[tuple[int, BatchView]]:
    """Positions and whole batches up to the first that is torn, damaged or out of order."""
    position, size, file = 0, segment.size, segment.file
    next_offset = segment.base_offset
    chunk, chunk_start = memoryview(b""), 0
    while position + HEADER_SIZE <= size:
        at = position - chunk_start
        if at + HEADER_SIZE > len(chunk):
            chunk, chunk_start, at = memoryview(file.pread(min(CHUNK, size - position), position)), position, 0
        batch = BatchView(chunk, at)
        try:
            check(batch, position, size)
        except CorruptDataError:
            return
        if at + batch.batch_length > len(chunk):
            length = max(CHUNK, batch.batch_length)
            chunk, chunk_start = memoryview(file.pread(min(length, size - position), position)), position
            batch = BatchView(chunk, 0)
        is_in_order = next_offset <= batch.base_offset and batch.last_offset - segment.base_offset <= RELATIVE_OFFSET_MAX
        if not is_in_order or not batch.is_valid:
            return
        yield position, batch
        next_offset = batch.next_offset
        position += batch.batch_length


# --- step 4: where the log ends ---


def _find_end(log: Log, *, is_start_offset_certain: bool) -> None:
    now_ms = log.services.clock.time_ms()
    if len(log.segments):
        active = log.segments.active
        log.log_end_offset = active.read_next_offset()
        if log.log_end_offset < log.log_start_offset and not is_start_offset_certain:
            # Perhaps of an older topic of that name: it is no reason to give up a record.
            logger.warning(
                "%s ends at %d: the log start offset %d of its checkpoint is ignored",
                log.topic_partition,
                log.log_end_offset,
                log.log_start_offset,
            )
            log.log_start_offset = 0
        if log.log_end_offset >= log.log_start_offset:
            active.activate()
            return
        kept_in = strays.set_segments_aside(log)
        logger.warning(
            "%s ends at %d before its start %d, so its end was lost; it goes on at %d, and its segments are kept in %s",
            log.topic_partition,
            log.log_end_offset,
            log.log_start_offset,
            log.log_start_offset,
            kept_in,
        )
        log.epochs.clear()
        log.producers.clear(log.log_start_offset)
    log.log_end_offset = log.log_start_offset
    log.add_segment(log.log_start_offset, now_ms)


def _are_epochs_incomplete(log: Log) -> bool:
    """Whether the file was lost, or is from a log start offset that was never checkpointed."""
    if not log.epochs.entries:
        return log.log_start_offset < log.log_end_offset
    return log.epochs.entries[0].start_offset > log.log_start_offset


def _rebuild_epochs(log: Log) -> None:
    logger.warning("rebuilding the leader epochs of %s from its batches", log.topic_partition)
    log.epochs.entries.clear()
    for segment in log.segments:
        for _, batch in segment.scan(0):
            log.epochs.assign_if_newer(batch.partition_leader_epoch, batch.base_offset)
    log.epochs.write()


# --- step 5: producers ---


def rebuild_producers(log: Log, end_offset: int, *, was_clean: bool) -> None:
    """Bring the producers to their state at `end_offset`, from a snapshot and the batches after it. Raises OSError."""
    producers = log.producers
    if not producers.snapshots and was_clean:
        # Nobody who stopped cleanly leaves no snapshot, except a log without producers: do not read all of it.
        producers.map_end_offset = end_offset
        producers.take_snapshot()
        return
    producers.reload(log_start_offset=log.log_start_offset, log_end_offset=end_offset, now_ms=log.services.clock.time_ms())
    start_offset = producers.map_end_offset
    for segment in log.segments.starting_with(start_offset):
        if segment.base_offset >= end_offset or start_offset >= end_offset:
            break
        found = segment.find_batch(max(start_offset, segment.base_offset))
        if found is None:
            continue
        for position, header in segment.scan(found[0]):
            if header.base_offset >= end_offset:
                break
            if header.producer_id >= 0:
                _replay(log, segment, position, header)
    producers.map_end_offset = end_offset
    producers.take_snapshot()


def _replay(log: Log, segment: LogSegment, position: int, header: BatchView) -> None:
    """Take a batch whose transaction, if it ends one, is in the index already."""
    if header.is_control:
        header = BatchView(memoryview(segment.file.pread(header.batch_length, position)))
    batch = producer_batch(header)
    if batch is not None:
        completed = log.producers.update(batch)
        if completed is not None:
            log.producers.complete(completed)


def _note_producer(log: Log, segment: LogSegment, batch: BatchView) -> None:
    if batch.producer_id >= 0:
        try:
            one = producer_batch(batch)
        except CorruptRecordError as error:
            logger.warning("%s: the marker at offset %d is unreadable: %s", segment.path, batch.base_offset, error)
            return
        if one is not None:
            completed = log.producers.update(one)
            if completed is not None:
                try:
                    complete_transaction(log, segment, completed)
                except CorruptIndexError as error:
                    logger.warning("%s: %s", segment.path, error)
    log.producers.map_end_offset = batch.next_offset
