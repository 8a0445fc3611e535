"""The file: what is refused, what a failed write leaves, where writes run."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pybroker.metadata.store import open_store
from pybroker.metadata.store.base import Entry, StoreError
from pybroker.metadata.store.sqlite import LAYOUT_VERSION, SqliteStore, stored_entries

if TYPE_CHECKING:
    from pathlib import Path


async def filled(path: Path) -> None:
    store = SqliteStore.open(path)
    await store.commit(puts={f"topics/{n}": b"x" * 500 for n in range(200)})
    await store.close()


def other_programs_file(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()


def marked_by_another_program(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA application_id = 7")
    connection.close()


def text_file(path: Path) -> None:
    path.write_text("broker.id=0\n" * 100)


def directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (other_programs_file, "another program"),
        (marked_by_another_program, "another program"),
        (text_file, "damaged or not a metadata store"),
        (directory, "cannot be used"),
    ],
)
def test_what_is_not_our_file_is_refused_and_left_alone(tmp_path: Path, make: Callable[[Path], None], words: str) -> None:
    path = tmp_path / "metadata.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError, match=words) as caught:
        SqliteStore.open(path)
    assert str(path) in str(caught.value)
    assert before == (path.read_bytes() if path.is_file() else b"")


async def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    await filled(path)
    raw = bytearray(path.read_bytes())
    raw[4096 * 3 : 4096 * 12] = bytes(4096 * 9)
    path.write_bytes(raw)
    with pytest.raises(StoreError, match="damaged"):
        SqliteStore.open(path)


async def test_a_newer_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    await filled(path)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {LAYOUT_VERSION + 1}")
    connection.close()
    with pytest.raises(StoreError, match="layout 2"):
        SqliteStore.open(path)


async def test_a_second_owner_is_refused_until_the_first_has_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybroker.metadata.store.sqlite.LOCK_WAIT_S", 0.0)
    path = tmp_path / "deep" / "er" / "metadata.db"
    first = SqliteStore.open(path)
    with pytest.raises(StoreError, match="in use by another process or container"):
        SqliteStore.open(path)
    await first.close()
    await SqliteStore.open(path).close()


async def test_a_write_that_fails_changes_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "metadata.db")
    connection = store._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")  # a full disk
    with pytest.raises(StoreError, match="full"):
        await store.commit(puts={"big": bytes(1 << 20), "small": b"x"})
    assert await store.list() == ((), 0)
    assert await store.commit(puts={"small": b"x"}) == 1
    await store.close()
    again = SqliteStore.open(tmp_path / "metadata.db")
    assert (await again.list()).entries == (Entry("small", b"x", 1),)
    await again.close()


async def test_writes_run_where_the_owner_wants(tmp_path: Path) -> None:
    ran = 0

    async def run(function: Callable[[], None]) -> None:
        nonlocal ran
        ran += 1
        await asyncio.to_thread(function)

    store = open_store(f"sqlite:{tmp_path / 'metadata.db'}", run)
    await store.commit(puts={"k": b"v"})
    await store.commit()
    await store.close()
    assert ran == 1, "an empty commit is not written"


@pytest.mark.parametrize("is_closed", [True, False])
async def test_entries_are_read_without_a_change_to_the_files(tmp_path: Path, *, is_closed: bool) -> None:
    path = tmp_path / "metadata.sqlite"
    await filled(path)
    store = SqliteStore.open(path)
    await store.commit(puts={"cluster/id": b"the-cluster"})
    wanted = (await store.list()).entries
    here = tmp_path
    if is_closed:
        await store.close()
    else:  # as a kill leaves the files: the commit is only in the write-ahead log
        here = tmp_path / "killed"
        here.mkdir()
        for file in [path, path.with_name("metadata.sqlite-wal")]:
            (here / file.name).write_bytes(file.read_bytes())
        await store.close()
    before = {one.name: one.read_bytes() for one in here.iterdir() if one.is_file()}
    assert ("metadata.sqlite-wal" in before) is not is_closed
    assert sorted(stored_entries(here / path.name)) == sorted(wanted)
    assert {one.name: one.read_bytes() for one in here.iterdir() if one.is_file()} == before


@pytest.mark.parametrize(
    ("make", "words"), [(other_programs_file, "another program"), (text_file, "damaged or not a metadata store")]
)
def test_entries_of_what_is_not_our_file_are_refused_by_its_name(
    tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    path = tmp_path / "metadata.sqlite"
    make(path)
    with pytest.raises(StoreError, match=words) as refused:
        stored_entries(path)
    assert str(path) in str(refused.value)
