"""A durable store in one SQLite file, for a broker that is a cluster by itself.

Durability
    The write-ahead log is used with synchronous=FULL: a commit returns after its fsync. After kill -9 or a power
    failure at any point, the file has every commit that returned and no half of another. The file is `PATH`, with
    `PATH-wal` beside it while it is open. `sqlite_reserve` explains what may be written while the volume is full.

Ownership
    One process at a time has the file (by SQLite's exclusive lock, which ends with the process). All entries are in
    memory too, and reads never touch the file. The file is opened in the calling thread. A commit takes one to ten
    milliseconds of fsync and runs through `run`, by which the composition root sends it to a thread.

Layout
    application_id  0x7062726b, "pbrk": distinguishes our file from any other
    user_version    1, this layout
    entries         key (text, primary), value (blob), revision (integer)
    counter         one row: the revision of the last commit that changed an entry here, which no entry may carry any more
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Self

from pybroker.metadata.store.base import Change, Entry, StoreError
from pybroker.metadata.store.memory import MemoryStore
from pybroker.metadata.store.sqlite_reserve import SqliteReserve

APPLICATION_ID: Final = 0x7062726B
LAYOUT_VERSION: Final = 1
CACHE_KB: Final = 256  # the broker reads the file only when it starts; SQLite takes 2 MB otherwise
LOCK_WAIT_S: Final = 1.0  # a predecessor that is stopping may still be closing the file

RunBlocking = Callable[[Callable[[], None]], Awaitable[None]]
"""A function that runs a blocking function somewhere and waits for it; `asyncio.to_thread` fits."""


async def run_inline(function: Callable[[], None]) -> None:
    """Run `function` here, which blocks the loop: for tests and command line tools."""
    function()


def stored_entries(path: Path) -> list[Entry]:
    """Return the entries of a store that no process uses, without a change to its files. Raises StoreError as `open` does.

    A copy is read, because SQLite writes to the files of a store that was not closed.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        try:
            for suffix in ("", "-wal"):
                if path.with_name(path.name + suffix).exists():
                    shutil.copyfile(path.with_name(path.name + suffix), copy.with_name(path.name + suffix))
        except OSError as error:
            raise StoreError(_explain(path, error)) from error
        connection, entries, _ = _opened(copy, path)
        connection.close()
        return entries


class SqliteStore(MemoryStore):
    """A store in an SQLite file. Make it with `open`."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, entries: Sequence[Entry], revision: int, run: RunBlocking
    ) -> None:
        super().__init__(entries, revision)
        self._connection, self._path, self._run = connection, path, run
        self.reserve = SqliteReserve(connection, path)

    @classmethod
    def open(cls, path: Path, run: RunBlocking = run_inline) -> Self:
        """Open the store at `path`, or create it and the directories above it.

        Raises StoreError if the file is damaged, belongs to another program, has a newer layout, is in use, or cannot
        be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(_explain(path, error)) from error
        connection, entries, revision = _opened(path, path)
        store = cls(connection, path, entries, revision, run)
        store.reserve.take()
        return store

    async def _persist(self, changes: Sequence[Change], revision: int) -> None:
        def write() -> None:  # reads the entries, which no other commit changes meanwhile
            try:
                refusal = self.reserve.refusal(sum(map(self._growth_bytes, changes)))
                if refusal is None:
                    puts = [(key, value, revision) for key, value, _ in changes if value is not None]
                    deletes = [(key,) for key, value, _ in changes if value is None]
                    self._write_or_make_room(puts, deletes, revision)
            except (sqlite3.Error, OSError) as error:
                raise StoreError(_explain(self._path, error)) from error
            self.reserve.keep()
            if refusal is not None:
                raise StoreError(refusal)

        await self._run(write)

    def _growth_bytes(self, change: Change) -> int:
        """Return how many bytes a change adds to all entries; below 0 if it removes some."""
        before, after = None if change.key in self._sessions else self._entries.get(change.key), change.value
        grown = 0 if after is None else len(change.key) + len(after)
        return grown if before is None else grown - len(before.key) - len(before.value)

    def _write_or_make_room(self, puts: Sequence[tuple[str, bytes, int]], deletes: Sequence[tuple[str]], revision: int) -> None:
        try:
            self._write(puts, deletes, revision)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()  # after this, the log begins again
            self._write(puts, deletes, revision)

    def _write(self, puts: Sequence[tuple[str, bytes, int]], deletes: Sequence[tuple[str]], revision: int) -> None:
        """Write one transaction. Raises sqlite3.Error, and then the file has nothing of it."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("REPLACE INTO entries (key, value, revision) VALUES (?, ?, ?)", puts)
            connection.executemany("DELETE FROM entries WHERE key = ?", deletes)
            connection.execute("UPDATE counter SET revision = ?", (revision,))
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.rollback()
            raise

    async def _release(self) -> None:
        self._connection.close()
        self.reserve.leave()


def _opened(path: Path, named: Path) -> tuple[sqlite3.Connection, list[Entry], int]:
    """Open the file at `path`, which errors call `named`. Returns the connection, the entries and the revision."""
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(path, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
        _prepare(connection, named)
        entries = [Entry(*row) for row in connection.execute("SELECT key, value, revision FROM entries")]
        (revision,) = connection.execute("SELECT revision FROM counter").fetchone()
    except (sqlite3.Error, OSError, StoreError) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, StoreError):
            raise
        raise StoreError(_explain(named, error)) from error
    return connection, entries, revision


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Lock the file for this process, check that it is ours and whole, and lay it out if it is new."""
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application_id != APPLICATION_ID and (application_id or tables):
        raise StoreError(f"{path} is an SQLite file of another program, not a metadata store")
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    if tables and layout != LAYOUT_VERSION:
        raise StoreError(f"{path} has layout {layout}; this version reads layout {LAYOUT_VERSION}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KB}")
    connection.execute("BEGIN IMMEDIATE")  # takes the write lock, which locking_mode keeps until the file is closed
    if not tables:
        connection.execute(
            "CREATE TABLE entries (key TEXT PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL) WITHOUT ROWID"
        )
        connection.execute("CREATE TABLE counter (revision INTEGER NOT NULL)")
        connection.execute("INSERT INTO counter (revision) VALUES (0)")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")
    connection.execute("COMMIT")
    (finding,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if finding != "ok":
        raise StoreError(f"{path} is damaged: {finding}")


def _explain(path: Path, error: Exception) -> str:
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return f"the metadata store {path} is in use by another process or container"
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
        return f"the metadata store {path} is damaged or not a metadata store: {error}"
    return f"the metadata store {path} cannot be used: {error}"
