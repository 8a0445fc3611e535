"""Sessions of a store in a file: their keys are in memory only."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from pybroker.metadata.store import open_store
from testing.scenes.store_contract import session_of

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_file_never_has_the_keys_of_sessions(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    store = open_store(f"sqlite:{path}")
    session = await session_of(store)
    await store.commit(puts={"becomes a session's": b"1", "durable": b"1", "deleted": b"1"})
    await store.commit(puts={"session's": b"2"}, session=session)
    await store.commit(puts={"becomes a session's": b"3"}, deletes=["deleted"], session=session)
    await store.commit(puts={"session's, then durable": b"4"}, session=session)
    last = await store.commit(puts={"session's, then durable": b"5"})
    await store.close()  # as the end of the process: the session was not closed
    again = open_store(f"sqlite:{path}")
    entries, revision = await again.list()
    assert [(entry.key, entry.value) for entry in entries] == [("durable", b"1"), ("session's, then durable", b"5")]
    assert revision == last
    await again.close()


async def test_keys_of_sessions_are_not_written_to_the_file(tmp_path: Path) -> None:
    written = 0

    async def run(_: object) -> None:
        nonlocal written
        written += 1
        raise sqlite3.OperationalError("the disk is gone")

    store = open_store(f"sqlite:{tmp_path / 'metadata.sqlite'}", run)
    session = await session_of(store)
    assert await store.commit(puts={"k": b"1"}, session=session) == 1
    assert await store.commit(puts={"k": b"2"}, compare={"k": 1}, session=session) == 2
    await session.close()
    assert await store.list() == ((), 3)
    assert not written
    await store.close()
