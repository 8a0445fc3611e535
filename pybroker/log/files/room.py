"""Room on the volume of a log directory: how much is left for records, and a reserve for files that must still be
written.

No room for records
    While the volume is full, appends to the directory's logs are refused with KAFKA_STORAGE_ERROR before anything is
    written, and no partition is made there. Everything else works: reading, deleting topics and records, retention.
    So a broker that is started on a full volume stays up, even with producers that retry all the time, and takes
    records as soon as there is room.
    A check once a second may still be too slow: a write that finds no room takes the directory offline until the next
    start, because it is unknown how much of it is on the disk.

    A volume is full if it has less than FULL_BYTES, or less than was used since the last check: the next second would
    fill it. It has room again with ROOM_BYTES and twice the bytes that were left.

The reserve
    A file in the directory, `.reserve`, with that much room. It is removed when a small file finds none (`reserves`),
    before a recovery or a clean stop on a full volume, and made again when there is room. These write:

    each checkpoint               about 100 bytes for a partition, in a temporary file that replaces the old one
    each log that was appended to a snapshot of its producers, the gathered entries of its indexes: a few blocks
    once                          the marker of a clean stop
    a start that recovers         the same, also after the directory went offline: then nothing else may use the reserve

    So the reserve has LOG_BYTES for each log, and at most RESERVE_BYTES_MAX or a sixteenth of the volume: no more
    logs than that have been written to since their indexes were. If it is not enough, the next start recovers the
    directory's logs, which loses nothing.

Rejected: bytes counted at each append (a cost for every record, and others write to the volume too).
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from pybroker.log.files.reserves import NO_ROOM, RESERVES
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pybroker.log.files.filesystem import Filesystem

logger = logging.getLogger(__name__)

RESERVE_FILE: Final = ".reserve"
RESERVE_BYTES_MIN: Final = 64 << 10
LOG_BYTES: Final = 24 << 10
RESERVE_BYTES_MAX: Final = 8 << 20
VOLUME_SHARE: Final = 16
FULL_BYTES: Final = 64 << 10
ROOM_BYTES: Final = 256 << 10


class Room:
    """The room of one log directory. `measure` may run in its thread, `release` in any, the rest on the loop. Nothing
    raises.
    """

    __slots__ = (
        "_filesystem",
        "_held_bytes",
        "_is_ours",
        "_lock",
        "_measured",
        "_path",
        "_room_from",
        "is_full",
        "is_held",
        "logs_refuse",
    )

    def __init__(self, filesystem: Filesystem, path: str) -> None:
        self._filesystem, self._path = filesystem, path
        self._lock = threading.Lock()
        self._held_bytes = 0
        self._is_ours = False
        self._measured: tuple[int, int] | None = None  # free bytes, and bytes used since the previous check
        self._room_from = 0
        self.is_full = False
        """Whether the last check found no room for records."""
        self.is_held = True
        """Whether the reserve is as large as it should be."""
        self.logs_refuse = False
        """Whether the logs refuse records: `is_full` as of the last pass over them, or as they were opened."""

    def begin(self) -> None:
        """Hold the reserve from now on, and check the room. Call it when the directory is this broker's."""
        if not self._filesystem.keeps_reserves:
            return
        self._is_ours = True
        try:
            if self._filesystem.exists(self._reserve_file):
                self._held_bytes = self._filesystem.file_size(self._reserve_file)
        except OSError as error:
            logger.debug("%s cannot be read: %s", self._reserve_file, error)
        RESERVES.add(self._path, self.release)
        self.look()

    def end(self) -> None:
        """Stop holding the reserve, because the directory is not this broker's any more; the file stays for the next start."""
        self._is_ours = False
        RESERVES.discard(self._path)

    def keep(self) -> None:
        """Keep the reserve for the next start, because the directory is offline and nothing is written there any more."""
        RESERVES.discard(self._path)

    def look(self, log_count: int = 0) -> None:
        """Check how much room there is, and act on it. Blocks."""
        self.measure(log_count)
        self.judge()
        self.logs_refuse = self.is_full

    def measure(self, log_count: int) -> None:
        """Measure how much room there is, and fill up the reserve for `log_count` logs. Blocks.

        Nothing is made in a directory that is not this broker's, such as the empty one where a disk is not mounted.
        """
        if not self._is_ours:
            return
        try:
            size, free = self._filesystem.volume_space(self._path)
            self._hold(min(RESERVE_BYTES_MIN + LOG_BYTES * log_count, RESERVE_BYTES_MAX, size // VOLUME_SHARE), free=free)
            size, free = self._filesystem.volume_space(self._path)
        except OSError as error:  # the operation that needs the disk gets the error itself
            logger.debug("%s: the room that is left is unknown: %s", self._path, error)
            return
        before = self._measured
        self._measured = free, 0 if before is None else before[0] - free

    def judge(self) -> None:
        """Decide whether there is room for records, by the last measurement."""
        if self._measured is None:
            return
        free, used = self._measured
        if not self.is_full and free < max(FULL_BYTES, used):
            self.is_full = True
            self._room_from = max(ROOM_BYTES, 2 * free)
            logger.error(
                "Log directory %s: its volume is full, with %d bytes left: appends are refused until %d are free; "
                "delete topics or records, or make room",
                self._path,
                free,
                self._room_from,
            )
        elif self.is_full and free >= self._room_from:
            self.is_full = False
            logger.info("Log directory %s: %d bytes are free on its volume: records are taken again", self._path, free)

    def release(self) -> bool:
        """Release the reserve, for files that must be written. Returns whether there was any."""
        with self._lock:
            if not self._held_bytes:
                return False
            try:
                self._filesystem.remove(self._reserve_file)
            except OSError as error:
                logger.warning("%s cannot be removed: %s", self._reserve_file, error)
                return False
            logger.info("%s: the reserve of %d bytes is used, as the volume is full", self._path, self._held_bytes)
            self._held_bytes = 0
            self.is_held = False
            return True

    def refusal(self) -> KafkaError:
        """Return the error with which an append is refused."""
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the volume of log directory {self._path} is full: no records can be taken until topics or records are deleted",
        )

    # --- parts ---

    def _hold(self, wanted: int, *, free: int) -> None:
        with self._lock:
            lacking = wanted - self._held_bytes
            is_enough = lacking + FULL_BYTES <= free
            if lacking > 0 and (is_enough or not self._held_bytes):
                size = self._held_bytes + (lacking if is_enough else free // 2)  # half of the free bytes is better than nothing
                try:
                    self._filesystem.allocate(self._reserve_file, size)
                    self._held_bytes = size
                except OSError as error:
                    if error.errno not in NO_ROOM:
                        raise
            is_held = self._held_bytes >= wanted
            if is_held and not self.is_held:
                logger.info("Log directory %s has its reserve of %d bytes again", self._path, self._held_bytes)
            elif self.is_held and not is_held:
                logger.warning(
                    "Log directory %s: there is no room for a reserve of %d bytes, only for %d",
                    self._path,
                    wanted,
                    self._held_bytes,
                )
            self.is_held = is_held

    @property
    def _reserve_file(self) -> str:
        return f"{self._path}/{RESERVE_FILE}"
