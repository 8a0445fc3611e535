"""The disks of a broker, as rules change them: operations that take longer, volumes without room, directories that fail.

While no such rule is in force, the broker works on its own file system, which has nothing of this in its methods. A rule puts
other methods into that object, and its end removes them.

    disk_delay_s    each operation waits in the thread that makes it, as a program waits for a real disk: writes and reads of
                    records in the event loop, fsync in the thread of the directory
    disk_full       the broker sees a volume without room. It refuses records before it writes them, and takes them again when
                    there is room (`log/files/room.py`)
    disk_error      the first write that fails, or finds no room at all, takes a directory offline until the next start
                    (`log/directories/directory.py`); the rule does the same without a write
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from pybroker.log.manager.room_pass import apply_room

if TYPE_CHECKING:
    from pybroker.faults.rule import Rule
    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.files.filesystem import Filesystem
    from pybroker.log.manager.manager import LogManager

METHODS: Final = {"write": "pwrite", "read": "pread", "sync": "sync"}
FREE_BYTES: Final = 4096
"""The room that is left of a full volume, which is too little for records."""


class Disks:
    """The disks of one life of a broker. Belongs to the loop; the delays come in any thread.

    `see_room` is called when directories have become full, or have room again.
    """

    def __init__(self, filesystem: Filesystem, logs: LogManager, see_room: Callable[[], None]) -> None:
        self._filesystem, self._logs, self._see_room = filesystem, logs, see_room
        self._own: dict[str, Callable[..., Any]] = {name: getattr(filesystem, name) for name in METHODS.values()}
        self._delays: list[Rule] = []
        self._full: list[Rule] = []

    def begin(self, rule: Rule) -> None:
        """Let a rule be in force."""
        if rule.disk_error is not None:
            self._fail(rule)
        elif rule.disk_full:
            self._full.append(rule)
            self._count(rule)
            self._look(self._of(rule))
        else:
            self._delays.append(rule)
            self._slow_down()

    def end(self, rule: Rule) -> None:
        """Let a rule be in force no more. A directory that has failed remains offline until the next start."""
        if rule in self._full:
            self._full.remove(rule)
            self._look(self._of(rule))
        elif rule in self._delays:
            self._delays.remove(rule)
            self._slow_down()

    def _of(self, rule: Rule) -> list[LogDirectory]:
        """Return the directories that a rule is about."""
        return [one for one in self._logs.directories if _is_about(rule, one.path) and not one.is_offline]

    def _fail(self, rule: Rule) -> None:
        self._count(rule)
        for directory in self._of(rule):
            directory.fail(rule.failure)

    def _count(self, rule: Rule) -> None:
        rule.seen += len(self._of(rule))
        rule.count = rule.seen

    def _look(self, directories: Iterable[LogDirectory]) -> None:
        """Let directories see what room there is now, and their logs take records or not."""
        self._put("volume_space", self._volume_space if self._full else None)
        for directory in directories:
            directory.room.measure(directory.log_count)
            directory.room.judge()
            for _ in apply_room(directory, list(self._logs.all_logs())):
                pass
        self._see_room()

    def _volume_space(self, path: str) -> tuple[int, int]:
        size, free = type(self._filesystem).volume_space(self._filesystem, path)
        is_full = any(_is_about(one, path) for one in self._full)
        return (size, min(free, FREE_BYTES)) if is_full else (size, free)

    def _slow_down(self) -> None:
        """Let operations wait by the rules that are in force, also those on files that are open."""
        for operation, method in METHODS.items():
            rules = [one for one in self._delays if one.operation in (None, operation)]
            self._put(method, _slowed(self._own[method], rules) if rules else None)
        read: Any = self._filesystem.pread
        write: Any = self._filesystem.pwrite
        for log in self._logs.all_logs():
            for segment in log.segments:
                if (file := segment.open_file) is not None:
                    file._pread, file._pwrite = read, write

    def _put(self, name: str, method: Callable[..., Any] | None) -> None:
        """Put a method in the place of the file system's own, or put that back."""
        if method is not None:
            setattr(self._filesystem, name, method)
        else:
            vars(self._filesystem).pop(name, None)


def _is_about(rule: Rule, path: str) -> bool:
    return rule.directory is None or fnmatchcase(path, rule.directory)


def _slowed(method: Callable[..., Any], rules: list[Rule]) -> Callable[..., Any]:
    """Return a method that waits by the rules before it does what `method` does."""

    def slowed(*arguments: Any) -> Any:
        for rule in rules:
            if rule.strikes():
                time.sleep(rule.disk_delay_s or 0.0)
        return method(*arguments)

    return slowed
