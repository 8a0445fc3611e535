"""Opens an existing log: puts in order what an unclean stop left, without losing any intact batch.

Steps
    1. Deletions and compactions that were half done are settled, as `leftovers` describes.
    2. A segment without its indexes gets them rebuilt; indexes without a segment are removed (`partition_files`).
    3. After an unclean stop every segment from the recovery point on is read: each batch must be whole, have its
       checksum and continue the offsets. The first batch that does not ends the log: the file is cut there. Intact
       batches after it, and later segments, are kept under other names, as are those after a hole that no compaction
       explains. After a clean stop the same is done if the last segment's end is damaged.
    4. The end offset is read from the last segment; leader epochs and the log start offset are brought into its
       range.
    5. The producers are loaded from the youngest snapshot and the batches after it.
       Transaction indexes of sealed segments that a reader could not believe are made again before (`derived`).
    6. Where `flush.messages` promises it, everything is made durable. Records that only the page cache has may have been
       sent again by their producer, or never been acknowledged, so they must not be shown before. And they must be shown
       as soon as clients are served: the high watermark of a leader without followers is the end of its log.

Everything that makes the log end earlier than it did, or leaves a hole in it, is logged as a warning and is an entry
of `Log.lost`.

The recovery point moves only with fsync, so it is never above what the disk holds. If only the process died, the page
cache has everything that it wrote: the scan finds the last batch that was written whole.

Source: LogLoader, LogSegment.recover of Kafka.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.config.setting import LONG_MAX
from pybroker.log import flush
from pybroker.log.append import complete_transaction, producer_batch
from pybroker.log.indexes.entry_file import CorruptIndexError
from pybroker.log.leader_epoch_cache import UNDEFINED_EPOCH, EpochEntry, HeaderEpochs
from pybroker.log.recovery import derived, leftovers, lost, old_formats, partition_files
from pybroker.log.recovery.lost import UNKNOWN
from pybroker.log.segments.batch_scan import CorruptDataError
from pybroker.log.segments.damage import Survey, intact_batches, next_intact
from pybroker.log.tail import RELATIVE_OFFSET_MAX
from pybroker.model import FIRST_OFFSET, NO_OFFSET, OFFSET_END, Offset
from pybroker.records.batch import HEADER_SIZE, MAGIC, BatchView
from pybroker.records.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.log.log_state import LogState
    from pybroker.log.results import LastRun
    from pybroker.log.segments.segment import LogSegment

logger = logging.getLogger(__name__)


def load(log: LogState, last: LastRun) -> None:
    """Fill a fresh `Log` from its directory; `log.lost` lists what was given up. Blocks. Raises OSError.

    Raises OldFormatError, before anything is changed, where a recovery would take messages of magic 0 and 1 for damage.
    """
    was_clean, recovery_point = last.was_clean, last.recovery_point
    if not was_clean:
        old_formats.refuse_first(log.filesystem, log.path, recovery_point)
    partition_files.open_segments(log, leftovers.settle(log))
    log.log_start_offset = last.log_start_offset
    are_epochs_sound = log.epochs.load()
    log.producers.find_snapshots()
    if was_clean:
        log.producers.durable_snapshot_offset = max(log.producers.snapshots, default=NO_OFFSET)
    partition_files.drop_cut_segments(log)
    log.producers.remove_stray_snapshots(set(log.segments.base_offsets))
    derived.mend_transaction_indexes(log, last.aborted_counts, upto=OFFSET_END if was_clean else recovery_point)
    if len(log.segments):
        if was_clean:
            _recover_damaged_end(log)
        else:
            partition_files.settle_overlaps(log)
            durable_below = max(recovery_point, last.perhaps_durable_below)
            _recover_from(log, recovery_point, durable_below=durable_below, may_be_compacted=last.may_be_compacted)
    _find_end(log, is_start_offset_certain=last.is_start_offset_certain)
    _note_missing_end(log, last.known_end_offset)
    is_whole = was_clean and not log.lost
    log.recovery_point = log.log_end_offset if is_whole else min(recovery_point, log.log_end_offset)
    log.log_start_offset = max(log.log_start_offset, log.segments[0].base_offset)
    if not are_epochs_sound or _are_epochs_incomplete(log):
        _rebuild_epochs(log)
    log.epochs.truncate_from_end(log.log_end_offset)
    log.epochs.truncate_from_start(log.log_start_offset)
    rebuild_producers(log, log.log_end_offset, was_clean=was_clean and not log.lost)
    log.producers.remove_stray_snapshots(set(log.segments.base_offsets))
    state = log.flush_state
    state.has_new_names = state.are_indexes_behind = not was_clean
    state.is_new = True  # the process that made it may have been killed, or have stopped while it was empty
    if log.config.flush_messages < LONG_MAX and log.recovery_point < log.log_end_offset:
        flush.finish(log)


# --- step 3: after an unclean stop ---


def _recover_from(log: LogState, recovery_point: Offset, *, durable_below: Offset, may_be_compacted: bool = False) -> None:
    segments = list(log.segments.starting_with(recovery_point))
    logger.debug("Recovering %s from offset %d: %d segments", log.topic_partition, segments[0].base_offset, len(segments))
    rebuild_producers(log, segments[0].base_offset, was_clean=False)
    next_offset = segments[0].base_offset
    for index, segment in enumerate(segments):
        next_offset = max(next_offset, log.log_start_offset)  # segments below it are deleted, and a crash may bring them back
        if next_offset < segment.base_offset and not may_be_compacted:
            why = f"no file has them, and {segment.path} comes next"
            if next_offset >= durable_below:
                _end_before(log, segments[index:], next_offset, why)
                break
            lost.note(log, first_offset=next_offset, end_offset=segment.base_offset, reason=why)
        log.producers.map_end_offset = segment.base_offset
        log.producers.take_snapshot()
        next_offset, end, reason = _recover_segment(log, segment)
        if reason is not None:
            _give_up(log, segments[index:], end, next_offset, reason)
            break


def _end_before(log: LogState, later: Sequence[LogSegment], next_offset: Offset, reason: str) -> None:
    """End the log at `next_offset`, from which on nothing was durable; the `later` segments, after the hole, are kept in
    other files.

    The disk had written the later segments first. Consumers would silently pass a hole; if the log ends before it,
    its new leader epoch shows them that records are lost.
    """
    old_formats.refuse_any(log.filesystem, [one.path for one in later])
    behind = f"the offsets from {next_offset} to {later[0].base_offset - 1} are gone"
    lost.keep_segments(log, later, later[-1].read_end()[0], behind)
    lost.note(log, first_offset=next_offset, end_offset=later[0].base_offset, reason=reason)


def _recover_segment(log: LogState, segment: LogSegment) -> tuple[Offset, int, str | None]:
    """Read everything and rebuild all indexes.

    Returns the offset and the position after the last intact batch, and what is wrong with the bytes after it, if
    there are any.
    """
    segment.reset_indexes()
    segment.transaction_index.reset()
    next_offset, end, reason, epochs = segment.base_offset, 0, None, HeaderEpochs(segment.path)
    end_offset = min(segment.end_offset, segment.base_offset + RELATIVE_OFFSET_MAX + 1)
    try:
        for position, batch in intact_batches(segment.file, segment.size, base_offset=next_offset, end_offset=end_offset):
            segment.note_batch(batch, position)
            log.epochs.assign_if_newer(epochs.of(batch), batch.base_offset)
            _note_producer(log, segment, batch)
            next_offset, end = batch.next_offset, position + batch.batch_length
    except CorruptDataError as error:
        reason = error.reason
    segment.write_last_timestamp()
    return next_offset, end, reason


def _give_up(log: LogState, segments: Sequence[LogSegment], end: int, next_offset: Offset, reason: str) -> None:
    """End the log at `next_offset`, byte `end` of the first of `segments`; intact batches after it are kept in other files."""
    segment, *later = segments
    old_formats.refuse_behind(log.filesystem, segment.path, end)
    old_formats.refuse_any(log.filesystem, [one.path for one in later])
    length, path = segment.size - end, None
    reason = f"{segment.path} is cut at byte {end}: the {length} bytes after it hold no intact batch: {reason}"
    end_offset = later[0].base_offset if later else _end_behind(segment, end, next_offset)
    if next_intact(segment.file, end, segment.size, base_offset=next_offset, end_offset=segment.end_offset) is not None:
        reason = reason.replace("hold no intact batch:", "do not begin with an intact batch:")
        path = lost.keep_bytes(log, segment, end, first_offset=next_offset, end_offset=end_offset)
    if later:
        last_end = later[-1].read_end()[0]
        lost.keep_segments(log, later, last_end, f"the segment lies after the damage at byte {end} of {segment.path}")
    segment.truncate_data(end)
    # Otherwise a second loss of power may undo the cut, and what is written there now may complete the torn batch again.
    segment.file.sync()
    lost.note(log, first_offset=next_offset, end_offset=end_offset, reason=reason, path=path)


def _end_behind(segment: LogSegment, end: int, next_offset: Offset) -> Offset:
    """Return where the offsets of the damage at byte `end` of the last segment ended; -1 if that is unknown."""
    survey = Survey(segment.file, segment.size, base_offset=segment.base_offset)
    found = max((batch.next_offset for _, batch in survey.batches()), default=UNKNOWN)
    if segment.size - end >= HEADER_SIZE:
        torn = BatchView(memoryview(segment.file.pread(HEADER_SIZE, end)))
        if torn.magic == MAGIC and torn.base_offset == next_offset and torn.last_offset_delta >= 0:
            found = max(found, torn.next_offset)
    return found if found > next_offset else UNKNOWN


# --- step 4: where the log ends ---


def _find_end(log: LogState, *, is_start_offset_certain: bool) -> None:
    if len(log.segments):
        active = log.segments.active
        log.log_end_offset, _ = active.read_end()
        if log.log_end_offset < log.log_start_offset and not is_start_offset_certain:
            # The offset may be of an older topic of that name: it is no reason to give up a record.
            logger.warning(
                "%s ends at %d: the log start offset %d of its checkpoint is ignored",
                log.topic_partition,
                log.log_end_offset,
                log.log_start_offset,
            )
            log.log_start_offset = FIRST_OFFSET
        if log.log_end_offset >= log.log_start_offset:
            active.activate()
            return
        first_offset = log.segments[0].base_offset
        reason = f"the log ends at {log.log_end_offset}, before its start offset {log.log_start_offset}, where it goes on"
        lost.note(
            log, first_offset=first_offset, end_offset=log.log_start_offset, reason=reason, path=lost.set_segments_aside(log)
        )
        log.epochs.clear()
        log.producers.clear(log.log_start_offset)
    log.log_end_offset = log.log_start_offset
    log.add_segment(log.log_start_offset, log.services.clock.time_ms())


def _recover_damaged_end(log: LogState) -> None:
    """Recover the end of a log that is damaged there, also after a clean stop: nothing may be appended after damage."""
    active = log.segments.active
    next_offset, end = active.read_end()
    if end < active.size:
        logger.warning(
            "%s is damaged after offset %d, at byte %d of %d, though the last stop was clean; its end is recovered",
            active.path,
            next_offset - 1,
            end,
            active.size,
        )
        _recover_from(log, active.base_offset, durable_below=active.base_offset)
        return
    try:
        len(active.transaction_index.entries)
    except CorruptIndexError as error:
        logger.warning("%s; the file is rebuilt, though the last stop was clean", error)
        _recover_from(log, active.base_offset, durable_below=active.base_offset)


def _note_missing_end(log: LogState, known_end_offset: Offset) -> None:
    """Note a loss if the log ends before an offset that it reached once: files are missing."""
    if log.log_end_offset < known_end_offset and not any(one.first_offset <= log.log_end_offset for one in log.lost):
        reason = f"the log ends at {log.log_end_offset}, but by its checkpoints it had reached {known_end_offset}"
        lost.note(log, first_offset=log.log_end_offset, end_offset=known_end_offset, reason=reason)


def _are_epochs_incomplete(log: LogState) -> bool:
    """Return whether the file was lost, or is from a log start offset that was never checkpointed."""
    if not log.epochs.entries:
        return log.log_start_offset < log.log_end_offset
    first_offset = log.epochs.entries[0].start_offset
    return first_offset > log.log_start_offset and first_offset > _first_record_offset(log)


def _first_record_offset(log: LogState) -> Offset:
    """Return where the first batch at or above the log start offset begins: compaction may have removed those before it."""
    for segment in log.segments.starting_with(log.log_start_offset):
        for _, batch in segment.intact(segment.position_of(log.log_start_offset)):
            if batch.last_offset >= log.log_start_offset:
                return max(batch.base_offset, log.log_start_offset)
    return log.log_end_offset


def _rebuild_epochs(log: LogState) -> None:
    """Rebuild the epochs. If compaction left a gap before an epoch's first batch, the epoch may have begun anywhere in
    the gap.

    It is assumed to begin with the gap: a consumer may see a truncation that never happened, but never misses one.
    """
    logger.warning("Rebuilding the leader epochs of %s from its batches", log.topic_partition)
    found: list[EpochEntry] = []
    end_offset = log.segments[0].base_offset
    for segment in log.segments:
        epochs = HeaderEpochs(segment.path)
        for _, batch in segment.intact(0):
            epoch = epochs.of(batch)
            if epoch > (found[-1].epoch if found else UNDEFINED_EPOCH):
                found.append(EpochEntry(epoch, end_offset))
            end_offset = batch.next_offset
    log.epochs.replace(found)


# --- step 5: producers ---


def rebuild_producers(log: LogState, end_offset: Offset, *, was_clean: bool) -> None:
    """Bring the producers to their state at `end_offset`, from a snapshot and the batches after it. Raises OSError."""
    producers = log.producers
    if not producers.snapshots and was_clean and log.log_start_offset < end_offset:
        # A clean stop, also of Kafka, always leaves a snapshot of a log that has records.
        logger.warning(
            "%s has no snapshot of its producers, though the last stop was clean; the broker reads them from all batches",
            log.path,
        )
    producers.reload(log_start_offset=log.log_start_offset, log_end_offset=end_offset, now_ms=log.services.clock.time_ms())
    for _, completed in derived.completed_transactions(log, producers, end_offset):
        producers.complete(completed)
    producers.take_snapshot()


def _note_producer(log: LogState, segment: LogSegment, batch: BatchView) -> None:
    if batch.producer_id >= 0:
        try:
            one = producer_batch(batch)
        except CorruptRecordError as error:
            logger.warning("%s: the marker at offset %d is unreadable and skipped: %s", segment.path, batch.base_offset, error)
            return
        if one is not None:
            completed = log.producers.update(one)
            if completed is not None:
                try:
                    complete_transaction(log, segment, completed)
                except CorruptIndexError as error:
                    logger.warning("%s: %s", segment.path, error)
    log.producers.map_end_offset = batch.next_offset
