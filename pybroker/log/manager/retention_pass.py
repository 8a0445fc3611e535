"""One pass of retention over the logs of a directory, in slices.

The new log start offsets become durable in the directory's thread, and then the segments below them are deleted, one
between two yields. At a yield logs may be appended to, read, shortened, deleted or moved, and segments may be deleted by others:
after each yield the pass looks again at what the log is. A crash leaves the segments that are not deleted yet below the log
start offset, where no client sees them, and a start deletes them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pybroker.log.manager import checkpoint_pass
from pybroker.log.retention import retention
from pybroker.protocol.error_codes import KafkaError
from pybroker.sharing.work import in_thread, while_wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.log import Log
    from pybroker.sharing.work import Work

logger = logging.getLogger(__name__)


def retain(directory: LogDirectory, all_logs: Callable[[], Iterable[Log]], now_ms: int) -> Work[None]:
    """Let the logs of `directory` begin later where that is due, and delete the segments below their starts."""
    due: list[Log] = []
    for log in all_logs():
        if log.log_directory is directory and not log.is_closed and not directory.is_offline:
            try:
                if (yield from _begins_above_segments(directory, log, now_ms)):
                    due.append(log)
            except KafkaError as error:
                logger.warning("Retention of %s fails and is tried again: %s", log.topic_partition, error)
            yield None
    if not due or directory.is_offline:
        return
    write = yield from checkpoint_pass.start_offsets(directory, all_logs)
    try:
        yield from in_thread(directory.run_in_thread, write)
    except OSError as error:
        directory.fail_pass(error)  # if only descriptors or room were missing, the next pass deletes the segments
        return
    for log in due:
        try:
            while not log.is_closed and not directory.is_offline and log.delete_below_start(count_max=1):
                yield None
        except KafkaError as refusal:
            logger.warning("Retention of %s fails and is tried again: %s", log.topic_partition, refusal)


def _cold_start(log: Log) -> Callable[[], None] | None:
    """Return what reads the indexes of the first segment, if it is complete and they were not read yet, as after a start."""
    first = log.segments[0]
    return None if first.are_indexes_loaded or first.is_active else log.cold_lookup(log.log_start_offset)


def _begins_above_segments(directory: LogDirectory, log: Log, now_ms: int) -> Work[bool]:
    """Let a log begin later, and return whether segments lie below its start."""
    if (lookup := _cold_start(log)) is not None:
        try:
            yield from in_thread(directory.run_in_thread, lookup)
        except OSError as error:
            directory.fail_pass(error)
        if log.is_closed or directory.is_offline:
            return False
    removals = log.segments.removals

    def is_same() -> bool:  # otherwise a file that the search reads may be gone; the next pass looks again
        return not (log.is_closed or directory.is_offline or log.segments.removals != removals)

    return bool((yield from while_wanted(is_same, retention.advance(log, now_ms, log.settled_end_offset))))
