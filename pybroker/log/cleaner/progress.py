"""Keeps how far each log is cleaned: `cleaner-offset-checkpoint`.

It saves work, and it is durable before a log gets its first gap: a start knows by it that offsets may be missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.log import checkpoint
from pybroker.log.offset_checkpoint import StoredOffset
from pybroker.model import Offset

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.directory import LogDirectory
    from pybroker.log.log import Log
    from pybroker.log.manager import LogManager
    from pybroker.model import TopicId, TopicPartition


class Progress:
    """Where the last cleaning of each log ended. Belongs to the loop."""

    __slots__ = ("_first_dirty", "_logs")

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self._first_dirty: dict[TopicPartition, tuple[TopicId, int]] = {}

    def load(self) -> None:
        """Read how far the last run came. A directory whose checkpoint cannot be read goes offline."""
        for tp, log in ((log.topic_partition, log) for log in self._logs.all_logs()):
            directory = log.log_directory
            if directory.is_offline:
                continue
            try:
                found = directory.checkpoint(checkpoint.CLEANER_OFFSET_FILE).offset_for(tp, log.topic_id)
            except OSError as error:
                directory.fail(error)
                continue
            # A crash has cut off what was beyond the log's end; records that are written there from now on were never
            # cleaned. The entry stays for as long as the log: by it a recovery knows that offsets may be missing.
            if found is not None and found.offset <= log.log_end_offset:
                self._first_dirty[tp] = (log.topic_id, found.offset)
            elif found is not None:
                self._first_dirty[tp] = (log.topic_id, log.log_end_offset if found.is_certain else log.log_start_offset)
        for directory in self._logs.directories:
            directory.checkpoint(checkpoint.CLEANER_OFFSET_FILE).forget()

    def first_dirty_offset(self, log: Log) -> Offset:
        """Return where the last cleaning of a log ended; 0 if there was none."""
        topic_id, offset = self._first_dirty.get(log.topic_partition, (log.topic_id, 0))
        return Offset(offset if topic_id == log.topic_id else 0)

    def is_known(self, log: Log) -> bool:
        """Return whether the partition has an entry."""
        return log.topic_partition in self._first_dirty

    def note(self, log: Log, first_dirty_offset: Offset) -> None:
        """Note that a log is clean below `first_dirty_offset`; `checkpoint_work` makes that durable."""
        self._first_dirty[log.topic_partition] = (log.topic_id, first_dirty_offset)

    def forget_deleted(self) -> None:
        """Drop the entries of logs that were deleted, and write the checkpoints without them, if there are any."""
        get = self._logs.get
        standing = {tp: one for tp, one in self._first_dirty.items() if (log := get(tp)) is not None and log.topic_id == one[0]}
        if len(standing) == len(self._first_dirty):
            return
        self._first_dirty = standing
        for directory in self._logs.directories:
            if not directory.is_offline:
                directory.run_in_thread(self.checkpoint_work(directory), directory.note_failure)

    def checkpoint_work(self, directory: LogDirectory) -> Callable[[], None]:
        """Return the function that writes how far the logs of a directory are cleaned."""
        offsets = {
            tp: StoredOffset(topic_id, Offset(offset))
            for tp, (topic_id, offset) in self._first_dirty.items()
            if (known := self._logs.get(tp)) is not None and known.log_directory is directory and known.topic_id == topic_id
        }
        return directory.checkpoint(checkpoint.CLEANER_OFFSET_FILE).writer(offsets)
