"""Makes a log durable, and keeps track of records that must become durable before they are visible.

Idea
    A flush runs in the thread of the log's directory; when it is done, the recovery point moves. One flush of a log
    runs at a time, and all requests that come meanwhile are done together by the next one (group commit).

Barriers
    An append that reaches `flush.messages` must be durable before any client learns of it. From its first offset on
    the log is unsettled until the recovery point has passed it: the high watermark stays below, and the request that
    appended waits. Later appends wait too, because the same high watermark hides them. One pair of offsets is enough
    for all barriers: everything that the recovery point has passed is durable, and the rest is one range.

What is synced
    The data of each segment from the recovery point on, and the indexes of complete segments. The indexes of the
    active segment are not synced, because recovery rebuilds the indexes of the segment with the recovery point and of
    all later ones. A complete segment whose data was synced while it was the active one is therefore remembered.
    Directories are synced only if they have new names. So an append to a log that was flushed before costs one fsync.
    Rejected: one job that syncs all logs which are due. Each is synced once in either way; the first would wait for
    the last.

Source: UnifiedLog.append (flushInterval), LocalLog.flush of Kafka, which sync inline.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pybroker.log.checkpoints.checkpoint import PARTITION_METADATA_FILE
from pybroker.model import FIRST_OFFSET, Offset

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.log import Log
    from pybroker.log.segments.segment import LogSegment
    from pybroker.model import Offset

RETRY_MS = 1_000


class FlushState:
    """The state of a log's flushes.

    Attributes:
        target: the offset that the running flush, or the next one, must reach.
        is_under_way: a flush is in the thread.
        sealed: complete segments whose indexes may not be durable, though the recovery point may have passed them.
        has_new_names: files were made, renamed or cut since the log's directory was last synced.
        is_new: the file with the topic's id was never synced.
        is_due: names or a snapshot must become durable, even if all records are.
        are_indexes_behind: those of the active segment may not be durable; a clean stop must sync them.
    """

    __slots__ = ("are_indexes_behind", "has_new_names", "is_due", "is_new", "is_under_way", "sealed", "target")

    def __init__(self) -> None:
        self.target = FIRST_OFFSET
        self.is_under_way = False
        self.sealed: list[LogSegment] = []
        self.has_new_names = False
        self.is_new = self.is_due = False
        self.are_indexes_behind = False

    def seal(self, segment: LogSegment) -> None:
        """Note that `segment` is complete because a new segment is the active one."""
        self.sealed.append(segment)
        self.has_new_names = True
        self.are_indexes_behind = False


def flush(log: Log, upto: Offset | None) -> None:
    """Make everything below `upto` durable in a thread; this is `Log.flush`."""
    state = log.flush_state
    target = log.log_end_offset if upto is None else upto
    if target <= log.recovery_point and not state.sealed and not state.is_due:
        return
    if upto is None:
        log.unflushed_messages = 0
        log.last_flush_ms = log.services.clock.time_ms()
    if state.is_under_way:
        state.target = max(state.target, target)
    else:
        state.target = target
        _start(log)


def settle(log: Log, first_offset: Offset) -> None:
    """Hide an append until it is durable; this is `Log.settle`."""
    if log.is_settled:
        log.unsettled_from = first_offset
    log.unsettled_upto = log.log_end_offset
    flush(log, None)


def finish(log: Log) -> None:
    """Make all of a log durable, for a start, which no client waits for. Blocks. Raises OSError."""
    target = log.log_end_offset
    work, done = sync_work(log, target)
    try:
        work()
    except OSError as error:
        done(error)
        raise
    done(None)
    log.recovery_point = target


def forget(log: Log) -> None:
    """Forget the running flushes after a truncation; this is `Log.forget_flushes`."""
    end_offset = log.log_end_offset
    log.truncations += 1
    log.flush_state.target = min(log.flush_state.target, end_offset)
    log.flush_state.has_new_names = True
    log.recovery_point = min(log.recovery_point, end_offset)
    log.unsettled_upto = min(log.unsettled_upto, end_offset) if log.unsettled_from < end_offset else FIRST_OFFSET


def _start(log: Log) -> None:
    """Begin the next flush, unless a flush is running."""
    state, target, generation = log.flush_state, log.flush_state.target, log.truncations
    if state.is_under_way or log.is_closed:
        return
    try:
        work, done_with = sync_work(log, target)
    except OSError as error:  # the records stay; if the append failed now, they would be sent again and be there twice
        _failed(log, error)
        return
    state.is_under_way = True

    def done(error: OSError | None) -> None:
        state.is_under_way = False
        are_gone = done_with(error)
        if error is not None and are_gone:
            _start(log)
            return
        if error is not None:
            _failed(log, error)
            return
        was_settled = log.is_settled
        if generation == log.truncations:
            log.recovery_point = max(log.recovery_point, target)
        if state.target > log.recovery_point or state.sealed:
            _start(log)
        if not was_settled:
            log.on_settled()

    log.log_directory.run_in_thread(work, done)


def _failed(log: Log, error: OSError) -> None:
    """Note that nothing became durable. If only a descriptor was missing, the flush is tried again."""
    directory = log.log_directory
    directory.fail(error)
    if not directory.is_offline:
        directory.retry_later(log.services.clock.time_ms() + RETRY_MS, lambda: _start(log))


def sync_work(
    log: Log, target: Offset, *, is_closing: bool = False
) -> tuple[Callable[[], None], Callable[[OSError | None], bool]]:
    """Return what to run in a thread to make everything between the recovery point and `target` durable, and a function
    of its outcome.

    The function returns whether a failure only means that files were deleted meanwhile. With `is_closing` the indexes
    of the active segment are synced too. Raises OSError.
    """
    state, segments, directory = log.flush_state, log.segments, log.log_directory
    active, filesystem, path = segments.active, log.filesystem, log.path
    sealed = [segment for segment in state.sealed if segment in segments]
    due = [segment for segment in segments.starting_with(log.recovery_point) if segment.base_offset < target]
    due += [segment for segment in sealed if segment not in due]
    if is_closing and active not in due:
        due.append(active)
    work = [segment.sync_work(is_data_only=segment is active and not is_closing) for segment in due]
    if log.epochs.is_behind:
        log.epochs.write()
    epochs_path = log.epochs.path if log.epochs.is_dirty else None
    # Compaction may remove all records that the log has of a producer: then only a snapshot knows the producer.
    pending = log.producers.pending
    snapshot, snapshot_offset = log.producers.snapshot_to_sync, log.producers.last_snapshot_offset
    has_new_names = state.has_new_names or epochs_path is not None or snapshot is not None or pending is not None
    is_new, truncations, is_due = state.is_new, log.truncations, state.is_due
    state.are_indexes_behind |= active in due and not is_closing
    log.epochs.is_dirty = state.has_new_names = state.is_new = False

    def sync() -> None:
        for sync_segment in work:
            sync_segment()
        directory.sync_names()  # otherwise a durable file might have no name after a power failure
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile, maybe alone
            if snapshot is not None:
                filesystem.sync_path(snapshot)
        with contextlib.suppress(FileNotFoundError):  # the log was deleted meanwhile
            if pending is not None:
                pending.write()
            if epochs_path is not None:
                filesystem.sync_path(epochs_path)
            if is_new:
                filesystem.sync_path(f"{path}/{PARTITION_METADATA_FILE}")
            if has_new_names:
                filesystem.sync_directory(path)

    def done(error: OSError | None) -> bool:
        if error is None:
            state.is_due &= not is_due
            if snapshot is not None:
                log.producers.durable_snapshot_offset = snapshot_offset
            if pending is not None and not log.is_closed:
                is_wanted = truncations == log.truncations and log.segments.has(pending.offset)
                log.producers.note_written(pending, is_wanted=is_wanted)
            state.sealed = [segment for segment in state.sealed if segment in segments and segment not in sealed]
            return False
        state.has_new_names, state.is_new = state.has_new_names or has_new_names, state.is_new or is_new
        log.epochs.is_dirty |= epochs_path is not None
        return isinstance(error, FileNotFoundError) and (log.is_closed or any(segment not in segments for segment in due))

    return sync, done
