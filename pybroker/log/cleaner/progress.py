"""Keeps how far each log is cleaned: `cleaner-offset-checkpoint`.

It saves work, and it is durable before a log gets its first gap: a start knows by it that offsets may be missing.

An entry holds for the log that was cleaned. A log that was moved to another directory, or whose end was dropped, is cleaned
from its start again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pybroker.log import checkpoint
from pybroker.log.offset_checkpoint import StoredOffset
from pybroker.model import FIRST_OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.directory import LogDirectory
    from pybroker.log.log import Log
    from pybroker.log.manager import LogManager
    from pybroker.model import Offset, TopicId, TopicPartition


class _Entry(NamedTuple):
    """How far a log is cleaned, with the state of the log that this holds for."""

    topic_id: TopicId
    directory: LogDirectory
    truncations: int
    offset: Offset

    def holds_for(self, log: Log) -> bool:
        return self.topic_id == log.topic_id and self.directory is log.log_directory and self.truncations == log.truncations


class Progress:
    """Where the last cleaning of each log ended. Belongs to the loop."""

    __slots__ = ("_first_dirty", "_logs")

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self._first_dirty: dict[TopicPartition, _Entry] = {}

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
                self.note(log, found.offset)
            elif found is not None:
                self.note(log, log.log_end_offset if found.is_certain else log.log_start_offset)
        for directory in self._logs.directories:
            directory.checkpoint(checkpoint.CLEANER_OFFSET_FILE).forget()

    def first_dirty_offset(self, log: Log) -> Offset:
        """Return where the last cleaning of a log ended; 0 if there was none."""
        entry = self._first_dirty.get(log.topic_partition)
        return entry.offset if entry is not None and entry.holds_for(log) else FIRST_OFFSET

    def is_known(self, log: Log) -> bool:
        """Return whether the log has an entry."""
        entry = self._first_dirty.get(log.topic_partition)
        return entry is not None and entry.holds_for(log)

    def note(self, log: Log, first_dirty_offset: Offset) -> None:
        """Note that a log is clean below `first_dirty_offset`; `checkpoint_work` makes that durable."""
        self._first_dirty[log.topic_partition] = _Entry(log.topic_id, log.log_directory, log.truncations, first_dirty_offset)

    def forget_changed(self) -> None:
        """Drop the entries of logs that were deleted, and set those back that hold no longer; write the checkpoints then."""
        logs = [(log, one) for tp, one in self._first_dirty.items() if (log := self._logs.get(tp)) is not None]
        standing = [(log, one) for log, one in logs if log.topic_id == one.topic_id]
        changed = [log for log, one in standing if not one.holds_for(log)]
        if len(standing) == len(self._first_dirty) and not changed:
            return
        self._first_dirty = {log.topic_partition: one for log, one in standing}
        for log in changed:
            self.note(log, log.log_start_offset)
        for directory in self._logs.directories:
            if not directory.is_offline:
                directory.run_in_thread(self.checkpoint_work(directory), directory.note_failure)

    def checkpoint_work(self, directory: LogDirectory) -> Callable[[], None]:
        """Return the function that writes how far the logs of a directory are cleaned."""
        offsets = {
            tp: StoredOffset(one.topic_id, one.offset)
            for tp, one in self._first_dirty.items()
            if (log := self._logs.get(tp)) is not None and log.log_directory is directory and log.topic_id == one.topic_id
        }
        return directory.checkpoint(checkpoint.CLEANER_OFFSET_FILE).writer(offsets)
