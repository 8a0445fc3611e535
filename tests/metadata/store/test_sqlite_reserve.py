"""The store holds a reserve for a full volume: commits that free space need not a byte more of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from pybroker.metadata.store.base import StoreError
from pybroker.metadata.store.sqlite import SqliteStore
from pybroker.metadata.store.sqlite_reserve import CHECKPOINT_PAGES, FREE_PAGES_MIN, SqliteReserve

if TYPE_CHECKING:
    from pathlib import Path


def sizes(path: Path) -> dict[str, int]:
    return {one.name: one.stat().st_size for one in path.parent.iterdir()}


async def refusal(store: SqliteStore, puts: dict[str, bytes]) -> str:
    """Return why the change was not committed; the text is empty when it was."""
    try:
        await store.commit(puts=puts)
    except StoreError as error:
        return str(error)
    return ""


def without_room() -> mock._patch[mock.PropertyMock]:
    return mock.patch.object(SqliteReserve, "_free_bytes", new_callable=mock.PropertyMock, return_value=0)


async def test_the_room_is_in_the_store_while_it_is_open_and_in_a_file_while_it_is_not(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    for _ in range(2):
        store = SqliteStore.open(path)
        assert store.reserve.is_whole
        found = sizes(path)
        assert set(found) == {"metadata.db", "metadata.db-wal"}
        assert found["metadata.db-wal"] > 2 * CHECKPOINT_PAGES * 4096
        await store.close()
        assert sizes(path)["metadata.db-reserve"] == found["metadata.db-wal"]
        assert "metadata.db-wal" not in sizes(path)


async def test_what_frees_space_needs_none(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    store = SqliteStore.open(path)
    await store.commit(puts={f"topics/{n}": b"t" * 700 for n in range(400)} | {"epoch": b"0000"})
    with without_room():
        before = sizes(path)
        for number in range(400):
            await store.commit(deletes=[f"topics/{number}"], puts={"epoch": b"%04d" % number})
        for number in range(30):
            await store.commit(puts={f"configs/topic/{number}": b'{"retention.ms":"1"}'})
        assert sizes(path) == before
    await store.close()
    again = SqliteStore.open(path)
    assert len((await again.list()).entries) == 31
    await again.close()


async def test_all_can_be_deleted_in_one_commit(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    store = SqliteStore.open(path)
    await store.commit(puts={f"topics/{n}": b"t" * 3000 for n in range(300)})
    await store.commit(puts={"k": b"v"})
    with without_room():
        before = sizes(path)
        await store.commit(deletes=[f"topics/{n}" for n in range(300)])
        assert sizes(path) == before
    await store.close()


async def test_growth_is_refused_before_it_uses_up_what_deletions_need(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "metadata.db"
    store = SqliteStore.open(path)
    await store.commit(puts={"topics/large": b"t" * 50_000})
    caplog.set_level(logging.INFO)
    with without_room():
        before, accepted = sizes(path), 0
        while len((await store.list()).entries) < 1000:
            refused = await refusal(store, {f"configs/{accepted}": b"c" * 3000})
            if refused:
                break
            accepted += 1
        assert "is full: only changes that take no space are possible" in refused
        assert accepted > 5, "small changes are still taken"
        revision = (await store.list()).revision
        with pytest.raises(StoreError, match="is full"):
            await store.commit(puts={"topics/new": b"t" * 100_000})
        assert (await store.list()).revision == revision, "nothing half made"
        assert await store.get("topics/new") is None
        await store.commit(deletes=["topics/large"])
        assert sizes(path) == before
    await store.commit(puts={"topics/new": b"t" * 100_000})
    assert store.reserve.is_whole
    await store.close()
    lines = [record.message for record in caplog.records if "reserve" in record.message]
    assert len(lines) == 2, lines
    assert "has no room for its reserve" in lines[0]
    assert "has its reserve again" in lines[1]
    again = SqliteStore.open(path)
    (free,) = again._connection.execute("PRAGMA freelist_count").fetchone()
    assert free >= FREE_PAGES_MIN
    await again.close()
