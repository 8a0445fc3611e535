"""One of the broker's log directories: its lock, its thread, whether its disk works, and the files that wait to be
removed.

The first OSError takes the directory offline: its logs respond with KAFKA_STORAGE_ERROR until the broker is started
again, because a disk that failed once cannot be trusted with the order of its writes. Running out of descriptors or
memory maps is no failure of a disk: the operation that needed one fails with the same code, and may be tried again.

Source: LogDirFailureChannel, LogManager of Kafka.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.log.checkpoints.offset_checkpoint import OffsetCheckpoint
from pybroker.log.files.filesystem import SHORTAGES, NotReplacedError
from pybroker.log.files.reserves import NO_ROOM
from pybroker.log.files.room import Room
from pybroker.powers import is_power_of_ten
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.sharing.work import run_inline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pybroker.log.checkpoints.checkpoint import MetaProperties
    from pybroker.log.files.filesystem import Filesystem
    from pybroker.sharing.work import ThreadRunner

logger = logging.getLogger(__name__)

LOCK_FILE: Final = ".lock"
_MS_PER_S: Final = 1_000


class MissingDirectoryError(OSError):
    """A directory that this broker has used is not where it was, or does not name its owner. The text is for people."""


class ShortageError(KafkaError):
    """KAFKA_STORAGE_ERROR of an operation for which the process had no descriptor or memory map left. It may be tried again."""

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"no file descriptor or memory map is left for log directory {path}: {error}; "
            "allow this process more of them (ulimit -n, vm.max_map_count) or let fewer connections in (max.connections)",
        )


class LogDirectory:
    """One log directory. `on_failure` is called once, when it goes offline.

    `run_in_thread(work, done)` runs everything that blocks on this directory's disk, one after the other, in its own
    thread.
    """

    __slots__ = (
        "_checkpoints",
        "_due",
        "_lock_fd",
        "_names_changed",
        "_names_synced",
        "_passes",
        "_retries",
        "_sequence",
        "_trees",
        "failure",
        "filesystem",
        "log_count",
        "not_replaced",
        "on_failure",
        "path",
        "properties",
        "room",
        "run_in_thread",
        "shortages",
        "was_clean",
    )

    def __init__(
        self,
        path: str,
        filesystem: Filesystem,
        on_failure: Callable[[LogDirectory], None] | None = None,
        run_in_thread: ThreadRunner = run_inline,
    ) -> None:
        self.path = path
        self.filesystem = filesystem
        self.on_failure = on_failure
        self.run_in_thread = run_in_thread
        self._passes: set[str] = set()  # the kinds of passes that are running
        self.failure: OSError | None = None
        self.room = Room(filesystem, path)
        self.log_count = 0  # the partitions' logs, as the log manager counts them
        self.shortages = 0  # operations refused because no descriptor or map was left
        self.not_replaced = 0  # files that kept their old content because there was no room
        self.properties: MetaProperties | None = None
        self.was_clean = True  # whether the last stop was clean, as the start found
        self._checkpoints: dict[str, OffsetCheckpoint] = {}
        self._names_changed = 1  # names made by a process that was killed may not be durable yet
        self._names_synced = 0
        self._lock_fd = -1
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._retries: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = itertools.count()
        self._trees: defaultdict[int, bytearray] = defaultdict(bytearray)  # names by the second from which on they are removed

    @property
    def is_offline(self) -> bool:
        """Whether its disk has failed."""
        return self.failure is not None

    @property
    def is_out_of_room(self) -> bool:
        """Whether it is offline because its volume was full when it had to write; a person can make room."""
        return self.failure is not None and self.failure.errno in NO_ROOM

    @property
    def can_delete(self) -> bool:
        """Whether logs may be deleted and files removed."""
        return self.failure is None or self.is_out_of_room

    @property
    def absolute_path(self) -> str:
        """The path that administrators see."""
        return str(Path(self.path).absolute())

    def volume_space(self) -> tuple[int, int]:
        """Return the bytes of the volume, and how many of them are free for the broker. Raises OSError."""
        return self.filesystem.volume_space(self.path)

    def fail(self, error: OSError) -> KafkaError:
        """Go offline because of `error`, unless only a descriptor was missing. Returns the error to raise."""
        if self.failure is None and error.errno in SHORTAGES:
            self.shortages += 1
            shortage = ShortageError(self.path, error)
            if is_power_of_ten(self.shortages):  # every request may be refused
                logger.warning("%s (%d operations refused so far)", shortage.message, self.shortages)
            return shortage
        if self.failure is None:
            self.failure = error
            self.room.keep()
            if isinstance(error, MissingDirectoryError):
                logger.error("Log directory %s is offline: %s", self.path, error.strerror)
            else:
                remedy = "delete topics or make room" if self.is_out_of_room else "see to the disk"
                logger.error("Log directory %s goes offline: %s; %s and start the broker again", self.path, error, remedy)
                logger.debug("The failure of %s", self.path, exc_info=error)
            if self.on_failure is not None:
                self.on_failure(self)
        return self.error()

    def note_failure(self, error: OSError | None) -> None:
        """Go offline if a thread has reported an error; this is the `done` of work that concerns only this directory."""
        if error is not None:
            self.fail(error)

    def fail_pass(self, error: OSError) -> None:
        """Go offline because of an error of a pass that is made again, but not if a file found no room for its new content.

        Other writers on the volume may take the room that is left, and the reserve when it is released. The old content serves:
        an older checkpoint costs the next start some time.
        """
        if not isinstance(error, NotReplacedError):
            self.fail(error)
        elif self.failure is None:
            self.not_replaced += 1
            if is_power_of_ten(self.not_replaced):  # the passes are frequent
                logger.warning(
                    "Log directory %s: %s; the file stays, and the next pass writes it if there is room (%d such files so far)",
                    self.path,
                    error,
                    self.not_replaced,
                )

    def error(self) -> KafkaError:
        """Return the error of an offline directory."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {self.path} is offline: {self.failure}")

    def checkpoint(self, name: str) -> OffsetCheckpoint:
        """Return the offset checkpoint of that name, of which there is one object."""
        found = self._checkpoints.get(name)
        if found is None:
            found = self._checkpoints[name] = OffsetCheckpoint(self.filesystem, f"{self.path}/{name}")
        return found

    def note_names(self) -> None:
        """Note that a partition's directory was made or renamed here; the next `sync_names` makes that durable."""
        self._names_changed += 1

    def sync_names(self) -> None:
        """Make all names durable that were noted before this call, in any thread; does nothing if they are. Raises OSError."""
        noted = self._names_changed
        if noted > self._names_synced:
            self.filesystem.sync_directory(self.path)
            self._names_synced = noted

    # --- its thread ---

    def is_busy_with(self, kind: str) -> bool:
        """Return whether the last `run_pass` of that kind is still running."""
        return kind in self._passes

    def run_pass(self, kind: str, works: Iterable[Callable[[], None]], *, is_deleting: bool = False) -> bool:
        """Run periodic work in the directory's thread, one piece after the other, with the work of others in between.

        Does nothing while the last pass of that kind is running: a slow disk does not get more than it can do. An
        OSError takes the directory offline, and ends the pass; `is_deleting` means that the pass continues if only
        room was missing. Returns whether `works` are run.
        """
        if kind in self._passes:
            return False
        self._passes.add(kind)
        left = iter(works)

        def done(error: OSError | None) -> None:
            if error is not None:
                self.fail(error)
            is_over = self.is_offline and not (is_deleting and error is None and self.is_out_of_room)
            work = None if is_over else next(left, None)
            if work is None:
                self._passes.discard(kind)
            else:
                self.run_in_thread(work, done)

        done(None)
        return True

    # --- its lock ---

    def lock(self) -> None:
        """Keep other brokers out. Raises BlockingIOError if another broker holds the lock."""
        self._lock_fd = self.filesystem.lock(f"{self.path}/{LOCK_FILE}")
        self.room.begin()

    def unlock(self) -> None:
        """Let other brokers in; this also happens when the process dies."""
        if self._lock_fd >= 0:
            self.room.end()
            self.filesystem.close(self._lock_fd)
            self._lock_fd = -1

    # --- removals ---

    def remove_later(self, due_ms: int, remove: Callable[[], None]) -> None:
        """Have `remove` run by the first `remove_due` from `due_ms`, of the monotonic clock, on."""
        heapq.heappush(self._due, (due_ms, next(self._sequence), remove))

    def remove_tree_later(self, due_ms: int, name: str) -> None:
        """Have the directory `name` in this one removed as `remove_later` does, up to a second later.

        A minute of deletions may leave very many. So each keeps nothing but its name, which is shorter than a function.
        """
        self._trees[-(-due_ms // _MS_PER_S)] += os.fsencode(name) + b"/"

    def take_due(self, now_ms: int) -> Iterator[Callable[[], None]]:
        """Yield the removals that are due, one when it is asked for; the caller runs them where it may block."""
        while self._due and self._due[0][0] <= now_ms:
            yield heapq.heappop(self._due)[2]
        while self._trees and (due_s := min(self._trees)) * _MS_PER_S <= now_ms:
            names = self._trees[due_s]
            begin = names.rfind(b"/", 0, -1) + 1
            name = os.fsdecode(bytes(names[begin:-1]))
            del names[begin:]
            if not names:
                del self._trees[due_s]
            yield partial(self.filesystem.remove_tree, f"{self.path}/{name}")

    # --- retries ---

    def retry_later(self, due_ms: int, work: Callable[[], None]) -> None:
        """Have `work` called on the loop by the first pass from `due_ms`, of the monotonic clock, on.

        The work has failed once, and not because of the disk.
        """
        heapq.heappush(self._retries, (due_ms, next(self._sequence), work))

    def take_retry(self, now_ms: int) -> Callable[[], None] | None:
        """Return the next work that is due to be tried again, which the caller calls; None if there is none."""
        is_due = self._retries and self._retries[0][0] <= now_ms and not self.is_offline
        return heapq.heappop(self._retries)[2] if is_due else None
