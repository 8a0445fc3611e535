"""Keeps how far each log is cleaned: `cleaner-offset-checkpoint`.

It saves work, and it is durable before a log gets its first gap: a start knows by it that offsets may be missing.

An entry holds for the log that was cleaned. A log that was moved to another directory, or whose end was dropped, is cleaned
from its start again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pybroker.log.checkpoints import checkpoint
from pybroker.log.checkpoints.offset_checkpoint import StoredOffset
from pybroker.model import FIRST_OFFSET

if TYPE_CHECKING:
    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.log import Log
    from pybroker.log.manager.checkpoint_pass import Collection
    from pybroker.log.manager.manager import LogManager
    from pybroker.model import Offset, TopicId, TopicPartition
    from pybroker.sharing.work import Pausing


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

    def load(self) -> Pausing[None]:
        """Read how far the last run came. A directory whose checkpoint cannot be read goes offline."""
        for log in list(self._logs.all_logs()):
            yield None
            tp, directory = log.topic_partition, log.log_directory
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
        entry = self._entry(log)
        return entry.offset if entry is not None else FIRST_OFFSET

    def is_known(self, log: Log) -> bool:
        """Return whether the log has an entry."""
        return self._entry(log) is not None

    def _entry(self, log: Log) -> _Entry | None:
        entry = self._first_dirty.get(log.topic_partition)
        return entry if entry is not None and entry.holds_for(log) else None

    def note(self, log: Log, first_dirty_offset: Offset) -> None:
        """Note that a log is clean below `first_dirty_offset`; what `checkpoint` returns makes that durable."""
        self._first_dirty[log.topic_partition] = _Entry(log.topic_id, log.log_directory, log.truncations, first_dirty_offset)

    def forget_changed(self) -> Pausing[None]:
        """Drop the entries of logs that were deleted, and set those back that hold no longer; write the checkpoints then.

        Entries may be noted wherever it yields.
        """
        has_changed = False
        for tp, one in list(self._first_dirty.items()):
            if self._first_dirty.get(tp) is one:
                log = self._logs.get(tp)
                if log is None or log.topic_id != one.topic_id:
                    del self._first_dirty[tp]
                    has_changed = True
                elif not one.holds_for(log):
                    self.note(log, log.log_start_offset)
                    has_changed = True
            yield None
        if has_changed:
            for directory in self._logs.directories:
                write = yield from self.checkpoint(directory)
                if not directory.is_offline:
                    directory.run_in_thread(write, directory.note_failure)

    def checkpoint(self, directory: LogDirectory) -> Collection:
        """Collect how far the logs of a directory are cleaned; return what writes it, as in `checkpoint_pass`."""
        file = directory.checkpoint(checkpoint.CLEANER_OFFSET_FILE)
        request = file.begin()
        offsets: dict[TopicPartition, StoredOffset] = {}
        for tp in list(self._first_dirty):
            one, log = self._first_dirty.get(tp), self._logs.get(tp)
            if one is not None and log is not None and log.log_directory is directory and log.topic_id == one.topic_id:
                offsets[tp] = StoredOffset(one.topic_id, one.offset)
            yield None
        return file.writer(offsets, request)
