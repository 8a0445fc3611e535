"""Collects the offsets of a directory's logs for its checkpoints, with pauses: there may be ten thousand logs.

What others do meanwhile
    Each offset is one that its log has at some moment after the collection began. No promise connects the offsets of two
    logs. A log that is made after the beginning may be missing. So a collection gets its number when it begins, and looks
    then at which logs there are: `offset_checkpoint` never writes it over one that began later, as that of a deletion of
    segments did. A log that is deleted meanwhile may have an entry, which counts for no other topic id.

    A log that is moved here must have its entries from the moment when it serves. Without them, a start would take the first gap
    that compaction left for the end of the log. A collection that begins while the log is still elsewhere may be written after
    that moment. So the checkpoints keep the entries of a log that will be moved, from the collection of the move until the log
    is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.log.checkpoints import checkpoint
from pybroker.log.checkpoints.offset_checkpoint import StoredOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.log import Log
    from pybroker.model import Offset, TopicPartition
    from pybroker.sharing.work import Pausing

    Logs = Callable[[], Iterable[Log]]
    Collection = Pausing[Callable[[], None]]


def both(directory: LogDirectory, logs: Logs, *, future: Log | None = None) -> Collection:
    """Collect recovery points and log start offsets. Return what writes them, in any thread; it blocks, and raises OSError.

    Of the logs that `logs` returns, those of other directories are left out. `future` is the log of a move that will be one
    of this directory: its entries are kept until `forget`.
    """
    write_recovery_points = yield from _of(directory, checkpoint.RECOVERY_POINT_FILE, logs, _recovery_point, future)
    write_start_offsets = yield from start_offsets(directory, logs, future=future)

    def work() -> None:
        directory.sync_names()
        write_recovery_points()
        write_start_offsets()

    return work


def forget(future: Log) -> None:
    """Keep no entries of the log of a move from now on: the log serves, or will never."""
    for name in (checkpoint.RECOVERY_POINT_FILE, checkpoint.LOG_START_OFFSET_FILE):
        future.log_directory.checkpoint(name).drop(future.topic_partition)


def start_offsets(directory: LogDirectory, logs: Logs, *, future: Log | None = None) -> Collection:
    """Collect log start offsets. Return what writes them, as `both` does."""
    return _of(directory, checkpoint.LOG_START_OFFSET_FILE, logs, _start_offset, future)


def high_watermarks(directory: LogDirectory, logs: Logs, high_watermark: Callable[[TopicPartition], Offset | None]) -> Collection:
    """Collect the high watermarks of logs; `high_watermark` returns None for none. Return what writes them, as `both` does."""
    return _of(directory, checkpoint.REPLICATION_OFFSET_FILE, logs, lambda log: high_watermark(log.topic_partition), None)


def _of(
    directory: LogDirectory, name: str, logs: Logs, offset_of: Callable[[Log], Offset | None], future: Log | None
) -> Collection:
    file = directory.checkpoint(name)
    if future is not None and (offset := offset_of(future)) is not None:
        file.keep(future.topic_partition, StoredOffset(future.topic_id, offset))
    request = file.begin()
    offsets: dict[TopicPartition, StoredOffset] = {}
    for log in list(logs()):
        if log.log_directory is directory and (offset := offset_of(log)) is not None:
            offsets[log.topic_partition] = StoredOffset(log.topic_id, offset)
        yield None
    return file.writer(offsets, request)


def _recovery_point(log: Log) -> Offset:
    return log.safe_recovery_point


def _start_offset(log: Log) -> Offset | None:
    # Also that of a log whose first segment begins there: the deletion of earlier segments need not be durable.
    return log.log_start_offset if log.log_start_offset > 0 else None
