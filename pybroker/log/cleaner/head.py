"""Gives back the space of the first segment's records that lie below the log start offset.

The part of the segment that stays is copied to a segment of its own. Its base offset is that of the batch with the log start
offset. It takes the segment's place as a compacted segment does (`replace`). Kafka reads it as any segment.

A copy is made only when at least half of the segment is gone, so no byte is copied that does not free one. The active segment is
first completed. Before the old segment's files are renamed, the recovery point behind it and the log start offset are on the
disk. If both segments come back, the old one lies below the log start offset, and a start removes it.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from typing import TYPE_CHECKING

from pybroker.log.cleaner.chunks import ChunkReader
from pybroker.log.cleaner.replace import replace, unless_changed
from pybroker.log.cleaner.rewrite import WRITE_BYTES, new_target
from pybroker.log.manager import checkpoint_pass
from pybroker.log.retention import record_retention
from pybroker.model import OFFSET_END, Offset
from pybroker.sharing.work import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pybroker.log.cleaner.worker import CleanerWorker
    from pybroker.log.log import Log
    from pybroker.log.segments.segment import LogSegment
    from pybroker.sharing.work import Work

logger = logging.getLogger(__name__)

FREED_BYTES_MIN = 4096
"""Less than a block of a file system gives nothing back."""


class NoRoomForCopyError(OSError):
    """The volume has no room for the part of a segment that stays. The copy is tried again later; nothing is offline."""


def is_due(log: Log) -> bool:
    """Return whether the first segment can be cut now; completes and flushes it where that is needed first. Raises OSError."""
    if not record_retention.is_by_record(log) or "delete" not in log.config.cleanup_policy or log.is_unfinished:
        return False
    head = log.segments[0]
    if log.log_start_offset <= head.base_offset or log.log_directory.room.is_full or log.replacement is not None:
        return False
    if log.log_start_offset >= head.end_offset:
        return False  # the next pass of retention deletes it
    position = record_retention.head_position(log)
    if position < max(FREED_BYTES_MIN, head.size - position) or position >= head.size:
        return False
    if head is log.segments.active:
        log.roll(log.services.clock.time_ms())
    if log.safe_recovery_point < head.end_offset:
        log.flush(upto=head.end_offset)
        return False
    return True


def cut(log: Log, all_logs: Callable[[], Iterable[Log]], worker: CleanerWorker, now_ms: int) -> Work[None]:
    """Cut the first segment, if that is still due; `worker.target` is the new one until it has taken its place.

    `all_logs` returns those whose checkpoints are written first.

    Raises CorruptRecordError, OSError. NoRoomForCopyError and SegmentsChangedError leave the log as it was.
    """
    if not is_due(log):
        return  # the log begins in another segment by now, maybe in the active one
    head, truncations, position = log.segments[0], log.truncations, record_retention.head_position(log)
    header = next((batch for _, batch in head.scan(position)), None)
    if header is None or not position:
        return
    run = log.log_directory.run_in_thread
    yield from in_thread(run, (yield from checkpoint_pass.both(log.log_directory, all_logs)))
    with _needing_room(head):
        target = worker.target = new_target(log, Offset(header.base_offset), now_ms)
    with _needing_room(head), unless_changed(log, [head], truncations):
        yield from _copy(head, ChunkReader(log, head, worker, position), target, worker)
    with _needing_room(head):
        yield from in_thread(run, target.sync_work())  # a file system may find only here that it has no room
    yield from replace(log, [head], target, truncations=truncations)
    worker.target = None
    logger.info("The first segment of %s begins at %d now", log.topic_partition, target.base_offset)


@contextlib.contextmanager
def _needing_room(head: LogSegment) -> Iterator[None]:
    """Raise NoRoomForCopyError if there is no room. The directory has served without the copy, and continues so."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise NoRoomForCopyError(errno.ENOSPC, f"no room to copy what stays of {head.path}") from error
        raise


def _copy(head: LogSegment, reader: ChunkReader, target: LogSegment, worker: CleanerWorker) -> Work[None]:
    for piece in head.transaction_index.collect(fetch_offset=target.base_offset, upper_offset=OFFSET_END):
        for entry in piece:
            target.transaction_index.gather(entry)
        yield None
    buffer, position = bytearray(), 0
    while chunk := (yield from reader.read()):
        for batch in chunk:
            target.note_batch(batch, position)
            position += batch.batch_length
            buffer += batch.data
            if len(buffer) >= WRITE_BYTES:
                target.write_noted(buffer)
                buffer = bytearray()
            yield from worker.throttle.spend(2 * batch.batch_length)
    target.write_noted(buffer)
    target.deactivate()
