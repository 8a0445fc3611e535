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

Very many segments
    The loop writes the indexes of a segment before the thread syncs them. So a flush of more than `SEGMENTS_PER_JOB`
    segments has several jobs, the oldest segments first. The last one syncs the names and the snapshot of the producers,
    and the recovery point moves after it, as if the flush had one job. Segments that are deleted between two jobs are
    left out; after a truncation the flush begins again.

Source: UnifiedLog.append (flushInterval), LocalLog.flush of Kafka, which sync inline.
"""

from __future__ import annotations

import contextlib
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.log.checkpoints.checkpoint import PARTITION_METADATA_FILE
from pybroker.model import FIRST_OFFSET, Offset

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.log_state import LogState
    from pybroker.log.producers.producer_state import PendingSnapshot
    from pybroker.log.segments.segment import LogSegment
    from pybroker.model import Offset

RETRY_MS = 1_000
SEGMENTS_PER_JOB: Final = 100


def flush(log: LogState, *, upto: Offset | None = None) -> None:
    """Make everything below `upto` (default: all) durable, in a thread, and then move the recovery point there.

    One flush of a log runs at a time; requests that come meanwhile are done by the next flush, so that no segment is synced more
    often than it has changed. Raises OSError.
    """
    state = log.flush_state
    target = log.log_end_offset if upto is None else upto
    if target <= log.recovery_point and not state.sealed and not state.is_due:
        return
    if upto is None:
        log.unflushed_messages = 0
        log.last_flush_ms = log.services.clock.monotonic_ms()
    if state.is_under_way:
        state.target = max(state.target, target)
    else:
        state.target = target
        _start(log)


def settle(log: LogState, first_offset: Offset) -> None:
    """Hide an append at `first_offset`, which has reached `flush.messages`, until it is durable.

    Starts a flush, as `flush` does; `on_settled` is called when it is done. Raises OSError.
    """
    if log.is_settled:
        log.unsettled_from = first_offset
    log.unsettled_upto = log.log_end_offset
    flush(log)


def finish(log: LogState) -> None:
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


def forget(log: LogState) -> None:
    """Forget the running flushes after a truncation."""
    end_offset = log.log_end_offset
    log.truncations += 1
    log.flush_state.target = min(log.flush_state.target, end_offset)
    log.flush_state.has_new_names = True
    log.recovery_point = min(log.recovery_point, end_offset)
    log.unsettled_upto = min(log.unsettled_upto, end_offset) if log.unsettled_from < end_offset else FIRST_OFFSET


class _Flush(NamedTuple):
    """A flush that is under way: what it reaches, and where its next job begins."""

    target: Offset
    begin: Offset
    truncations: int
    pending: PendingSnapshot | None
    """The snapshot of when the flush began: a later one may lie above its target."""


def _start(log: LogState) -> None:
    """Begin the next flush, unless a flush is running."""
    state = log.flush_state
    if not state.is_under_way and not log.is_closed:
        _run_job(log, _Flush(state.target, log.recovery_point, log.truncations, log.producers.pending))


def _run_job(log: LogState, one: _Flush) -> None:
    """Run the next job of a flush, and then the others."""
    state = log.flush_state
    due, begin = _due(log, begin=one.begin, target=one.target, count_max=SEGMENTS_PER_JOB)
    is_last = begin is None
    try:
        work, done_with = _names_work(log, due, one.pending) if is_last else _segments_work(log, due)
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
        if begin is not None and one.truncations == log.truncations:
            if not log.is_closed:
                _run_job(log, one._replace(begin=begin))
            return
        was_settled = log.is_settled
        if is_last and one.truncations == log.truncations:
            log.recovery_point = max(log.recovery_point, one.target)
        if state.target > log.recovery_point or state.sealed or (state.is_due and not is_last):
            _start(log)
        if not was_settled:
            log.on_settled()

    log.log_directory.run_in_thread(work, done)


def _failed(log: LogState, error: OSError) -> None:
    """Note that nothing became durable. If only a descriptor was missing, the flush is tried again."""
    directory = log.log_directory
    state = log.flush_state
    directory.fail(error)
    if directory.is_offline or state.is_retry_due:
        return
    state.is_retry_due = True

    def retry() -> None:
        state.is_retry_due = False
        _start(log)

    directory.retry_later(log.services.clock.monotonic_ms() + RETRY_MS, retry)


def _due(log: LogState, *, begin: Offset, target: Offset, count_max: int | None = None) -> tuple[list[LogSegment], Offset | None]:
    """Return what a job syncs, in order of the offsets: sealed segments, and all that have offsets from `begin` to `target`.

    At most `count_max` segments; the offset is where the next job begins, None after the last one.
    """
    sealed, segments = log.flush_state.sealed, log.segments
    first = segments[max(segments.floor_index(begin), 0)].base_offset
    due: list[LogSegment] = []
    gone: list[LogSegment] = []
    for segment in sealed:
        if segment not in segments:
            gone.append(segment)
        elif segment.base_offset >= first or len(due) == count_max:
            break
        else:
            due.append(segment)
    for segment in gone:
        del sealed[segment]
    while sealed and (last := next(reversed(sealed))) not in segments:
        del sealed[last]
    end = max(target, last.base_offset + 1) if sealed else target  # all that are sealed are due
    for segment in islice(segments.starting_with(begin), None if count_max is None else count_max + 1):
        if segment.base_offset >= end:
            break
        if len(due) == count_max:
            return due, max(begin, segment.base_offset)
        due.append(segment)
    return due, None


def sync_work(
    log: LogState, target: Offset, *, is_closing: bool = False
) -> tuple[Callable[[], None], Callable[[OSError | None], bool]]:
    """Return what to run in a thread to make everything between the recovery point and `target` durable, and a function
    of its outcome.

    The function returns whether a failure only means that files were deleted meanwhile. With `is_closing` the indexes
    of the active segment are synced too. Raises OSError.
    """
    due, _ = _due(log, begin=log.recovery_point, target=target)
    active = log.segments.active
    if is_closing and (not due or due[-1] is not active):
        due.append(active)
    return _names_work(log, due, log.producers.pending, is_closing=is_closing)


def _segments_work(
    log: LogState, due: list[LogSegment], *, is_closing: bool = False
) -> tuple[Callable[[], None], Callable[[OSError | None], bool]]:
    """Return what to run in a thread to make segments durable, and a function as that of `sync_work`. Raises OSError."""
    state, segments, active = log.flush_state, log.segments, log.segments.active
    sealed = [segment for segment in due if segment in state.sealed]
    work = [segment.sync_work(is_data_only=segment is active and not is_closing) for segment in due]
    state.are_indexes_behind |= not is_closing and bool(due) and due[-1] is active

    def sync() -> None:
        for sync_segment in work:
            sync_segment()

    def done(error: OSError | None) -> bool:
        if error is not None:
            return isinstance(error, FileNotFoundError) and (log.is_closed or any(segment not in segments for segment in due))
        for segment in sealed:
            state.sealed.pop(segment, None)
        while state.sealed and (first := next(iter(state.sealed))) not in segments:
            del state.sealed[first]
        return False

    return sync, done


def _names_work(
    log: LogState, due: list[LogSegment], pending: PendingSnapshot | None, *, is_closing: bool = False
) -> tuple[Callable[[], None], Callable[[OSError | None], bool]]:
    """Return the same for the last segments of a flush, all names, and what is beside the segments. Raises OSError."""
    state, directory, filesystem, path = log.flush_state, log.log_directory, log.filesystem, log.path
    sync_segments, segments_done = _segments_work(log, due, is_closing=is_closing)
    if log.epochs.is_behind:
        log.epochs.write()
    epochs_path = log.epochs.path if log.epochs.is_dirty else None
    # Compaction may remove all records that the log has of a producer: then only a snapshot knows the producer.
    snapshot, snapshot_offset = log.producers.snapshot_to_sync, log.producers.last_snapshot_offset
    has_new_names = state.has_new_names or epochs_path is not None or snapshot is not None or pending is not None
    is_new, truncations, is_due = state.is_new, log.truncations, state.is_due
    log.epochs.is_dirty = state.has_new_names = state.is_new = False

    def sync() -> None:
        sync_segments()
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
            return segments_done(None)
        state.has_new_names, state.is_new = state.has_new_names or has_new_names, state.is_new or is_new
        log.epochs.is_dirty |= epochs_path is not None
        return segments_done(error)

    return sync, done
