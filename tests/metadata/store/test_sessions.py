"""Sessions of every store: whose keys are deleted when one ends, what every watch sees of it, and what a restart leaves."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from pybroker.metadata.store import open_store
from pybroker.metadata.store.base import ABSENT, Change, Conflict, Session, SessionEndedError, Store
from tests.metadata.store.test_store import KINDS, drive

if TYPE_CHECKING:
    from pathlib import Path


async def session_of(store: Store) -> Session:
    return await store.open_session(ttl_ms=9_000, renew_ms=2_000)


@pytest.mark.parametrize("kind", KINDS)
def test_the_keys_of_a_session_are_deleted_in_one_commit_when_it_is_closed(kind: str) -> None:
    async def scenario(store: Store) -> None:
        seen: list[Sequence[Change]] = []
        session, other = await session_of(store), await session_of(store)
        revision = await store.commit(puts={"mine/1": b"1", "mine/2": b"2"}, compare={"mine/1": ABSENT}, session=session)
        await store.commit(puts={"others": b"3"}, session=other)
        await store.commit(puts={"durable": b"4"})
        assert isinstance(revision, int)
        assert await store.commit(deletes=["mine/1"], compare={"mine/1": ABSENT}) == Conflict("mine/1", ABSENT, revision)
        store.watch("", seen.append)
        await session.close()
        assert session.ended.is_set()
        assert not other.ended.is_set()
        ((first, second),) = seen
        assert [first, second] == [("mine/1", None, second.revision), ("mine/2", None, second.revision)]
        assert revision < second.revision <= (await store.list()).revision
        assert [entry.key for entry in (await store.list()).entries] == ["durable", "others"]
        await session.close()
        await other.close()
        assert [entry.key for entry in (await store.list()).entries] == ["durable"]

    drive(kind, scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_that_has_ended_commits_nothing(kind: str) -> None:
    async def scenario(store: Store) -> None:
        session = await session_of(store)
        await session.close()
        with pytest.raises(SessionEndedError, match="has ended"):
            await store.commit(puts={"k": b"v"}, deletes=["other"], session=session)
        assert (await store.list()).entries == ()

    drive(kind, scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_belongs_to_what_put_it_last(kind: str) -> None:
    async def scenario(store: Store) -> None:
        first, second = await session_of(store), await session_of(store)
        await store.commit(puts={"taken over": b"", "durable": b"", "deleted": b""}, session=first)
        await store.commit(puts={"taken over": b""}, session=second)
        await store.commit(puts={"durable": b""})
        await store.commit(deletes=["deleted"])
        await store.commit(puts={"deleted": b""})
        await first.close()
        assert [entry.key for entry in (await store.list()).entries] == ["deleted", "durable", "taken over"]
        await second.close()
        assert [entry.key for entry in (await store.list()).entries] == ["deleted", "durable"]

    drive(kind, scenario)


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_is_valid_while_it_renews_itself(kind: str) -> None:
    async def scenario(store: Store) -> None:
        session = await session_of(store)
        assert session.valid_until_s > asyncio.get_running_loop().time() + 8
        await session.close()

    drive(kind, scenario)


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
