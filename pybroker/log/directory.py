"""One of the broker's log directories: its lock, whether its disk still works, and files waiting to be removed.

The first OSError takes the directory offline: its logs answer KAFKA_STORAGE_ERROR until the broker is started again. A disk that
failed once cannot be trusted with the order of what it holds.

Source: LogDirFailureChannel, LogManager of Kafka.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.checkpoint import MetaProperties
    from pybroker.log.filesystem import Filesystem

logger = logging.getLogger(__name__)

LOCK_FILE: Final = ".lock"


class LogDirectory:
    """One log directory. `on_failure` is told once, when it goes offline."""

    __slots__ = ("_due", "_lock_fd", "_sequence", "failure", "filesystem", "on_failure", "path", "properties")

    def __init__(self, path: str, filesystem: Filesystem, on_failure: Callable[[LogDirectory], None] | None = None) -> None:
        self.path = path
        self.filesystem = filesystem
        self.on_failure = on_failure
        self.failure: OSError | None = None
        self.properties: MetaProperties | None = None
        self._lock_fd = -1
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = itertools.count()

    @property
    def is_offline(self) -> bool:
        """Whether its disk has failed."""
        return self.failure is not None

    @property
    def absolute_path(self) -> str:
        """The path as administrators are told."""
        return str(Path(self.path).absolute())

    def volume_space(self) -> tuple[int, int]:
        """Bytes of the volume, and those of them that are free for the broker. Raises OSError."""
        return self.filesystem.volume_space(self.path)

    def fail(self, error: OSError) -> KafkaError:
        """Go offline because of `error`. Returns what to raise."""
        if self.failure is None:
            self.failure = error
            logger.error("log directory %s goes offline", self.path, exc_info=error)
            if self.on_failure is not None:
                self.on_failure(self)
        return self.error()

    def error(self) -> KafkaError:
        """The answer of an offline directory."""
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {self.path} is offline: {self.failure}")

    def lock(self) -> None:
        """Keep other brokers out. Raises BlockingIOError when one is in."""
        self._lock_fd = self.filesystem.lock(f"{self.path}/{LOCK_FILE}")

    def unlock(self) -> None:
        """Let others in; also happens when the process dies."""
        if self._lock_fd >= 0:
            self.filesystem.close(self._lock_fd)
            self._lock_fd = -1

    def remove_later(self, due_ms: int, remove: Callable[[], None]) -> None:
        """Have `remove` run by the first `remove_due` from `due_ms` on."""
        heapq.heappush(self._due, (due_ms, next(self._sequence), remove))

    def take_due(self, now_ms: int) -> list[Callable[[], None]]:
        """The removals whose time has come; the caller runs them, where it may block."""
        due: list[Callable[[], None]] = []
        while self._due and self._due[0][0] <= now_ms:
            due.append(heapq.heappop(self._due)[2])
        return due
