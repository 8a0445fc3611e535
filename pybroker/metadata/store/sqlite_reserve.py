"""Room that a SQLite store holds for itself, so that it can be written while its volume is full.

Idea
    A change that frees space must be written first: the deletion of a topic, a shorter retention. So an open store
    holds two things that no other writer on the volume can take, and a closed store holds a third:

    PATH-wal        the write-ahead log, allocated beforehand. A commit writes its pages there, each page once
    free pages      of the database file. A commit that needs pages takes these, so the file need not grow
    PATH-reserve    bytes without meaning. SQLite removes PATH-wal when the store is closed; the next start, which may have to
                    write (the leader epochs after a crash), gets the room back from this file

How much
    SQLite copies the write-ahead log into the database when the log has CHECKPOINT_PAGES, and then begins the log
    again: so the log never needs more than that and one commit. A commit that removes entries, or replaces them by
    others of their size, writes each page of the database at most once. With as much again to spare, PATH-wal is (2 *
    CHECKPOINT_PAGES + pages of the database) frames: 0.8 MB for a store of few topics. FREE_PAGES are enough for
    dozens of changed settings, and are replaced when there is room.

What is refused
    A commit that makes the store larger than its free pages and the volume allow. It could be written, but not be copied into
    the database. Then the write-ahead log would fill up with pages that cannot leave it.

Rejected: a file that is removed when a commit fails, so that the commit can be tried again. Another writer on the
volume, for example a producer, would take the space at that moment. A file system that writes each block to a new
place (btrfs, zfs) keeps this promise only as far as it keeps its own reserve.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from typing import TYPE_CHECKING, Final

from pybroker.log.files.filesystem import Filesystem

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

CHECKPOINT_PAGES: Final = 64
FREE_PAGES: Final = 64
FREE_PAGES_MIN: Final = 32
"""If there are fewer free pages, more are added."""
FREE_PAGES_KEPT: Final = 16
"""Pages that only shrinking commits may use, to rearrange pages."""
PAGES_SPARE: Final = 4
"""Pages for a commit that grows the database, because it divides pages."""
FRAME_HEADER_BYTES: Final = 24
WAL_HEADER_BYTES: Final = 32
RESERVE_SUFFIX: Final = "-reserve"


class SqliteReserve:
    """The reserve of the store at `path`. Its methods run where the store's writes do, one at a time."""

    __slots__ = ("_connection", "_path", "_wal_bytes", "is_whole")

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self._path = connection, path
        self._wal_bytes = 0
        self.is_whole = True
        """Whether the reserve is complete. A line is logged when that changes."""
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")

    def take(self) -> None:
        """Take the room for the open store; the room of PATH-reserve comes first."""
        with contextlib.suppress(OSError):
            _reserve_path(self._path).unlink(missing_ok=True)
        self.keep()

    def keep(self) -> None:
        """Replace what is missing, after each commit. Raises nothing: the next commit tries again."""
        try:
            reason = self._make_up()
        except (sqlite3.Error, OSError) as error:
            reason = str(error)
        if self.is_whole and reason is not None:
            logger.warning(
                "The metadata store %s has no room for its reserve (%s); changes that free space are still possible; make room "
                "on its volume",
                self._path,
                reason,
            )
        elif not self.is_whole and reason is None:
            logger.info("The metadata store %s has its reserve again", self._path)
        self.is_whole = reason is None

    def refusal(self, growth_bytes: int) -> str | None:
        """Return why a commit that adds `growth_bytes` is impossible; None if it is possible. Raises sqlite3.Error, OSError."""
        if growth_bytes <= 0:
            return None
        pages = PAGES_SPARE + 2 * -(-growth_bytes // self._page_bytes)  # a page may be half full
        if pages <= self._pragma("freelist_count") - FREE_PAGES_KEPT or 2 * pages * self._page_bytes <= self._free_bytes:
            return None
        return (
            f"the volume of the metadata store {self._path} is full: only changes that take no space are possible. "
            "Delete topics or records, or make room"
        )

    def leave(self) -> None:
        """Hold the room for the next start, after the connection is closed. If SQLite had to leave PATH-wal, that file
        holds it.
        """
        if _wal_path(self._path).exists():
            return
        try:
            _allocate(_reserve_path(self._path), self._wal_bytes)
        except OSError as error:
            logger.warning("The metadata store %s has no room for its reserve (%s)", self._path, error)

    # --- parts ---

    def _make_up(self) -> str | None:
        """Take the missing room. Returns what there is no room for. Raises sqlite3.Error, OSError."""
        page_bytes = self._page_bytes
        if self._pragma("freelist_count") < FREE_PAGES_MIN:
            if self._free_bytes < 4 * FREE_PAGES * page_bytes:
                return "the database has too few free pages"
            self._add_free_pages(FREE_PAGES * page_bytes)
        frames = 2 * CHECKPOINT_PAGES + self._pragma("page_count")
        wanted = WAL_HEADER_BYTES + frames * (FRAME_HEADER_BYTES + page_bytes)
        if self._wal_bytes < wanted:
            _allocate(_wal_path(self._path), wanted)
            self._wal_bytes = wanted
        return None

    def _add_free_pages(self, size: int) -> None:
        """Add pages that nothing uses to the database file."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute("CREATE TABLE spare (bytes BLOB)")
            connection.execute("INSERT INTO spare VALUES (zeroblob(?))", (size,))
            connection.execute("DROP TABLE spare")
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.rollback()
            raise
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    @property
    def _page_bytes(self) -> int:
        return self._pragma("page_size")

    @property
    def _free_bytes(self) -> int:
        return Filesystem().volume_space(str(self._path.parent))[1]

    def _pragma(self, name: str) -> int:
        (value,) = self._connection.execute(f"PRAGMA {name}").fetchone()
        return int(value)


def _wal_path(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _reserve_path(path: Path) -> Path:
    return path.with_name(f"{path.name}{RESERVE_SUFFIX}")


def _allocate(path: Path, size: int) -> None:
    """Allocate at least `size` bytes to the file. Raises OSError.

    Bytes after the last commit mean nothing to SQLite: each frame of the write-ahead log is checked by a checksum and
    by numbers that change when the log begins again.
    """
    Filesystem().allocate(str(path), size)
