"""Room that a SQLite store holds for itself, so that it can be written while its volume is full.

Idea
    What frees space has to be written first: the deletion of a topic, a shorter retention. So a store that is open holds two
    things that nobody else on the volume can take, and holds a third one while it is closed:

    PATH-wal        the write-ahead log has its size beforehand. A commit writes its pages there, each once
    free pages      of the database file. A commit that needs pages takes these; the file need not grow for it
    PATH-reserve    bytes that mean nothing. SQLite removes PATH-wal when the store is closed; the next start, which may have to
                    write (the leader epochs after a crash), gets the room back from this file

How much
    SQLite copies the write-ahead log into the database when it has CHECKPOINT_PAGES, and begins it again: so it never needs more
    than that and one commit. A commit that takes entries away, or replaces them by others of their size, writes each page of the
    database once at most. With as much again to spare, PATH-wal is (2 * CHECKPOINT_PAGES + pages of the database) frames: 0.8 MB
    for a store of few topics. FREE_PAGES are enough for dozens of changed settings, and are made up for when there is room.

What is refused
    A commit that makes the store larger than its free pages and the volume allow: it could be written, but not be copied into
    the database, and the write-ahead log would fill up with what cannot leave it.

Rejected: a file that is removed when a commit fails, and the commit tried again. Whoever writes to the volume at that moment, for
example a producer, takes what was set free. A file system that writes each block to a new place (btrfs, zfs) keeps this promise
only as far as it keeps its own reserve.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from typing import TYPE_CHECKING, Final

from pybroker.log.filesystem import Filesystem

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

CHECKPOINT_PAGES: Final = 64
FREE_PAGES: Final = 64
FREE_PAGES_MIN: Final = 32
"""Below it they are made up for."""
FREE_PAGES_KEPT: Final = 16
"""What only shrinking commits may use: their rearranged pages."""
PAGES_SPARE: Final = 4
"""Of a commit that grows: pages that are divided."""
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
        """Whether there is all that should be. The log has a line when that changes."""
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")

    def take(self) -> None:
        """Take the room for the open store, at first that of PATH-reserve."""
        with contextlib.suppress(OSError):
            _reserve_path(self._path).unlink(missing_ok=True)
        self.keep()

    def keep(self) -> None:
        """Make up for what is missing, after each commit. Raises nothing: the next commit tries again."""
        try:
            reason = self._make_up()
        except (sqlite3.Error, OSError) as error:
            reason = str(error)
        if self.is_whole and reason is not None:
            logger.warning(
                "the metadata store %s has no room for its reserve (%s): what frees space can still be changed; make room on its "
                "volume",
                self._path,
                reason,
            )
        elif not self.is_whole and reason is None:
            logger.info("the metadata store %s has its reserve again", self._path)
        self.is_whole = reason is None

    def refusal(self, growth_bytes: int) -> str | None:
        """Why a commit that adds so many bytes cannot be; None when it can. Raises sqlite3.Error, OSError."""
        if growth_bytes <= 0:
            return None
        pages = PAGES_SPARE + 2 * -(-growth_bytes // self._page_bytes)  # a page may be half full
        if pages <= self._pragma("freelist_count") - FREE_PAGES_KEPT or 2 * pages * self._page_bytes <= self._free_bytes:
            return None
        return (
            f"the volume of the metadata store {self._path} is full: only what takes no space can be changed. "
            "Delete topics or records, or make room"
        )

    def leave(self) -> None:
        """Hold the room for the next start, when the connection is closed. Where SQLite had to leave PATH-wal, that does it."""
        if _wal_path(self._path).exists():
            return
        try:
            _allocate(_reserve_path(self._path), self._wal_bytes)
        except OSError as error:
            logger.warning("the metadata store %s has no room for its reserve (%s)", self._path, error)

    # --- parts ---

    def _make_up(self) -> str | None:
        """Returns what there is no room for. Raises sqlite3.Error, OSError."""
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
        """Let the database file grow by pages that nothing uses."""
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
        volume = os.statvfs(self._path.parent)
        return volume.f_bavail * volume.f_frsize

    def _pragma(self, name: str) -> int:
        (value,) = self._connection.execute(f"PRAGMA {name}").fetchone()
        return int(value)


def _wal_path(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _reserve_path(path: Path) -> Path:
    return path.with_name(f"{path.name}{RESERVE_SUFFIX}")


def _allocate(path: Path, size: int) -> None:
    """Let the file have at least that many bytes, with room behind each. Raises OSError.

    Bytes behind the last commit mean nothing to SQLite: each frame of the write-ahead log is checked by a checksum and by numbers
    that change when the log begins again.
    """
    Filesystem().allocate(str(path), size)
