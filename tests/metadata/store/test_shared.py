"""The store of another process: what the end of a connection ends, on both sides of the socket, and what a listing shows."""

from __future__ import annotations

import asyncio
import contextlib
import stat
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from pybroker.metadata.store import open_store
from pybroker.metadata.store.base import Change, Entry, OutcomeUnknownError, SessionEndedError, StoreError
from pybroker.metadata.store.memory import MemoryStore
from pybroker.metadata.store.shared import messages
from pybroker.metadata.store.shared.server import ENTRIES_PER_FRAME, StoreServer
from pybroker.metadata.store.shared.store import SharedStore
from testing.waiting import LONG_WAIT_S

TTL_MS = 60_000


@contextlib.asynccontextmanager
async def serving(directory: Path, store: MemoryStore | None = None) -> AsyncIterator[tuple[StoreServer, Path]]:
    server, path = StoreServer(store or MemoryStore()), directory / "metadata.socket"
    await server.listen(path)
    yield server, path
    await server.close()


async def changes_of(store: SharedStore) -> asyncio.Queue[Change]:
    """Return a queue of what the store's watches see from now on."""
    seen: asyncio.Queue[Change] = asyncio.Queue()

    def note(changes: Sequence[Change]) -> None:
        for change in changes:
            seen.put_nowait(change)

    store.watch("", note)
    await store.list()  # it is connected
    return seen


async def raw(path: Path, request: messages.Message) -> tuple[asyncio.StreamWriter, messages.Message]:
    """Send a request as a process that does nothing else, and return its connection and the response."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(messages.frame(request))
    return writer, await messages.read(reader)


async def test_the_sessions_of_a_process_end_with_its_connection(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, path):
        first, second = SharedStore(path), SharedStore(path)
        seen = await changes_of(second)
        session = await first.open_session(ttl_ms=TTL_MS, renew_ms=TTL_MS)
        revision = await first.commit(puts={"mine": b"1"}, session=session)
        assert await seen.get() == ("mine", b"1", revision)
        await first.close()  # without closing the session, as the end of the process does
        change = await asyncio.wait_for(seen.get(), LONG_WAIT_S)
        assert (change.key, change.value) == ("mine", None)
        await second.close()


async def test_a_process_that_does_not_renew_its_session_loses_it_and_keeps_its_connection(tmp_path: Path) -> None:
    store = MemoryStore()
    async with serving(tmp_path, store) as (_, path):
        writer, opened = await raw(path, {"id": 1, "do": "open", "ttl_ms": 20})
        gone = asyncio.Event()
        store.watch("mine", lambda changes: gone.set() if changes[0].value is None else None)
        puts = {"mine": "1"}
        commit = {"id": 2, "do": "commit", "puts": puts, "deletes": [], "compare": {}, "session": opened["session"]}
        writer.write(messages.frame(commit))
        await asyncio.wait_for(gone.wait(), LONG_WAIT_S)
        assert not writer.is_closing()
        writer.close()


async def test_the_end_of_the_connection_is_reported_and_every_request_fails_then(tmp_path: Path) -> None:
    lost = asyncio.Event()
    async with serving(tmp_path) as (server, path):
        store = open_store(f"unix:{path}", on_lost=lost.set)
        session = await store.open_session(ttl_ms=TTL_MS, renew_ms=TTL_MS)
        assert not lost.is_set()
        await server.close()
        await asyncio.wait_for(lost.wait(), LONG_WAIT_S)
        assert session.ended.is_set()
        with pytest.raises(SessionEndedError):
            await store.commit(puts={"k": b""}, session=session)
        with pytest.raises(StoreError, match="has ended") as failed:
            await store.commit(puts={"k": b""})
        assert not isinstance(failed.value, OutcomeUnknownError)
        await session.close()
        await store.close()


async def test_the_outcome_of_a_commit_is_unknown_when_the_connection_ends_before_its_response(tmp_path: Path) -> None:
    async def take_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await messages.read(reader)
        writer.close()

    path = tmp_path / "metadata.socket"
    async with await asyncio.start_unix_server(take_and_close, path):
        store = SharedStore(path)
        with pytest.raises(OutcomeUnknownError):
            await store.commit(puts={"k": b""})
        await store.close()


async def test_a_session_ends_for_its_process_when_the_owner_of_the_store_is_silent(tmp_path: Path) -> None:
    silent = asyncio.Event()

    async def open_and_be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await messages.read(reader)
        writer.write(messages.frame({"id": request["id"], "session": "1", "ttl_ms": 50}))
        await silent.wait()
        writer.close()

    path = tmp_path / "metadata.socket"
    async with await asyncio.start_unix_server(open_and_be_silent, path):
        store = SharedStore(path)
        session = await store.open_session(ttl_ms=50, renew_ms=10)
        await asyncio.wait_for(session.ended.wait(), LONG_WAIT_S)
        await store.close()
        silent.set()


async def test_a_long_listing_is_whole(tmp_path: Path) -> None:
    keys = [f"k-{number:05}" for number in range(3 * ENTRIES_PER_FRAME + 1)]
    owner = MemoryStore()
    await owner.commit(puts=dict.fromkeys([*keys, "other"], b'\xff\x00"\n\xe2'))
    async with serving(tmp_path, owner) as (_, path):
        store = SharedStore(path)
        entries, revision = await store.list("k-")
        assert entries == tuple(Entry(key, b'\xff\x00"\n\xe2', 1) for key in keys)
        assert revision == 1
        await store.close()


async def test_changes_behind_a_listing_are_seen_after_it(tmp_path: Path) -> None:
    async def list_and_change(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await messages.read(reader)
        listing = messages.frame({"id": request["id"], "entries": [["k", "", 1]], "revision": 1})
        writer.write(listing + messages.frame({"changes": [["k", None, 2]]}))
        await reader.read()
        writer.close()

    path, seen = tmp_path / "metadata.socket", asyncio.Event()
    async with await asyncio.start_unix_server(list_and_change, path):
        store = SharedStore(path)
        store.watch("", lambda _: seen.set())
        assert (await store.list()).revision == 1
        assert not seen.is_set()
        await asyncio.wait_for(seen.wait(), LONG_WAIT_S)
        await store.close()


async def test_what_is_no_frame_ends_the_connection_and_no_other_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, path):
        store = SharedStore(path)
        assert await store.list() == ((), 0)
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\3abc"):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(garbage)
            assert await reader.read() == b""
            writer.close()
        assert await store.commit(puts={"k": b""}) == 1
        await store.close()


async def test_only_the_same_user_can_connect_and_an_old_socket_is_replaced(tmp_path: Path) -> None:
    for _ in range(2):
        async with serving(tmp_path) as (_, path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            store = SharedStore(path)
            assert await store.list() == ((), 0)
            await store.close()


async def test_a_socket_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    store = open_store(f"unix:{tmp_path / 'none'}")
    with pytest.raises(StoreError, match=f"parent process .* cannot be reached at {tmp_path / 'none'}: No such file"):
        await store.list()
    await store.close()
