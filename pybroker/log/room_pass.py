"""The pass that checks which log directories have room for records, and the choice of the directory for a new log."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pybroker.log.append_rules import NoRoomRules, rules_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pybroker.log.directory import LogDirectory
    from pybroker.log.log import Log


def look(directory: LogDirectory, logs: Callable[[], Sequence[Log]], seen: Callable[[], None]) -> None:
    """Check in the directory's thread how much room there is, then let its logs take records or not, and call `seen`."""
    room = directory.room

    def done(error: OSError | None) -> None:
        directory.note_failure(error)
        room.is_looking = False
        room.judge()
        for log in logs():
            if room.is_full is not isinstance(log.validator, NoRoomRules):
                log.validator = rules_of(log.config, room)
        seen()

    if not room.is_looking:
        room.is_looking = True
        directory.run_in_thread(partial(room.measure, len(logs())), done)


def directory_for_new(directories: Sequence[LogDirectory], log_count: Callable[[LogDirectory], int]) -> LogDirectory:
    """Return the directory for a new log: that with the fewest. Raises KafkaError(KAFKA_STORAGE_ERROR) if none has room."""
    usable = [directory for directory in directories if not directory.is_offline]
    if not usable:
        raise directories[0].error()
    with_room = [directory for directory in usable if not directory.room.is_full]
    if not with_room:
        raise usable[0].room.refusal()
    return with_room[0] if len(with_room) == 1 else min(with_room, key=log_count)
