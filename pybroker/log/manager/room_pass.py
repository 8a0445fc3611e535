"""The pass that checks which log directories have room for records, and the choice of the directory for a new log."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pybroker.log.append_rules import NoRoomRules, rules_of
from pybroker.sharing.work import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.log import Log
    from pybroker.sharing.work import Work


def look(directory: LogDirectory, logs: Callable[[], Sequence[Log]], seen: Callable[[], None]) -> Work[None]:
    """Check in the directory's thread how much room there is, then let its logs take records or not, and call `seen`.

    Between two slices some logs take records and others do not. A log that is made meanwhile has the rules of its moment.
    """
    room = directory.room
    try:
        yield from in_thread(directory.run_in_thread, partial(room.measure, directory.log_count))
    except OSError as error:
        directory.fail(error)
    room.judge()
    if room.is_full is not room.logs_refuse:
        yield from apply_room(directory, logs())
    seen()


def apply_room(directory: LogDirectory, logs: Sequence[Log]) -> Work[None]:
    """Let the logs of a directory take records or not, as the last check has found."""
    room = directory.room
    for log in logs:
        if log.log_directory is directory and room.is_full is not isinstance(log.validator, NoRoomRules):
            log.validator = rules_of(log.config, room, log.services.inflation_max)
        yield None
    room.logs_refuse = room.is_full


def directory_for_new(directories: Sequence[LogDirectory]) -> LogDirectory:
    """Return the directory for a new log: that with the fewest. Raises KafkaError(KAFKA_STORAGE_ERROR) if none has room."""
    usable = [directory for directory in directories if not directory.is_offline]
    if not usable:
        raise directories[0].error()
    with_room = [directory for directory in usable if not directory.room.is_full]
    if not with_room:
        raise usable[0].room.refusal()
    return with_room[0] if len(with_room) == 1 else min(with_room, key=lambda one: one.log_count)
