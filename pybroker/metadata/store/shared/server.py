"""Serves a store on a unix socket. Only processes of the same user can connect.

A connection gets the changes of all commits from its begin on. Its sessions end when it ends, whatever has ended it, and so at
once when its process has ended. A process that still has its connection but does not run does not renew its sessions, which then
end when their time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pybroker.metadata.store.base import Change, Conflict, OutcomeUnknownError, Session, SessionEndedError, Store, StoreError
from pybroker.metadata.store.shared import messages

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.metadata.store.shared.messages import Message

ENTRIES_PER_FRAME: Final = 500
UNSENT_BYTES_MAX: Final = 1 << 26
"""A connection with more bytes that its process does not read is closed."""
_FOR_OTHERS: Final = 0o177


class StoreServer:
    """Serves `store`, which others may use meanwhile. `close` does not close the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._serving: set[asyncio.Task[None]] = set()

    async def listen(self, path: Path) -> None:
        """Serve on a socket at `path`, in place of one that an earlier process left there. Raises OSError."""
        self._server = await asyncio.start_unix_server(self._serve, sock=_bound(path))

    async def close(self) -> None:
        """Close all connections, which ends their sessions."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            await connection.end()
        if self._serving:
            await asyncio.wait(self._serving)  # each reads the end of its connection

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self._store, writer)
        self._connections.add(connection)
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            with contextlib.suppress(EOFError, OSError, StoreError):  # each of them ends the connection
                while True:
                    connection.take(await messages.read(reader))
        finally:
            await connection.end()
            self._connections.discard(connection)


def _bound(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX)
    before = os.umask(_FOR_OTHERS)
    try:
        bound.bind(str(path))
    except OSError:
        bound.close()
        raise
    finally:
        os.umask(before)
    return bound


@dataclass(slots=True)
class _Served:
    """A session of a connection, which `timer` ends unless it is renewed in time."""

    session: Session
    ttl_ms: int
    timer: asyncio.TimerHandle | None = None


class _Connection:
    """A connection of one process."""

    def __init__(self, store: Store, writer: asyncio.StreamWriter) -> None:
        self._store, self._writer = store, writer
        self._watch = store.watch("", self._send_changes)
        self._sessions: dict[str, _Served] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_session = 0

    def take(self, request: Message) -> None:
        """Carry out a request, while others run."""
        if request["do"] == "renew":  # never behind a disk
            self._send({"id": request["id"], **self._renewed(request["session"])})
        else:
            self._start(self._respond(request))

    async def end(self) -> None:
        """End the connection and its sessions; idempotent."""
        self._watch.cancel()
        self._writer.close()
        for name in tuple(self._sessions):
            await self._end_session(name)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _respond(self, request: Message) -> None:
        try:
            response = await self._carry_out(request)
        except StoreError as error:
            kind = next(kind for kind in (SessionEndedError, OutcomeUnknownError, StoreError) if isinstance(error, kind))
            response = {"error": str(error), "kind": kind.__name__}
        self._send({"id": request["id"], **response})

    async def _carry_out(self, request: Message) -> Message:
        match request["do"]:
            case "get":
                entry = await self._store.get(request["key"])
                return {"entries": messages.rows([] if entry is None else [entry])}
            case "list":
                return await self._list(request)
            case "open":
                return await self._open_session(request["ttl_ms"])
            case "end":
                await self._end_session(request["session"])
                return {}
            case _:
                return await self._commit(request)

    async def _list(self, request: Message) -> Message:
        entries, revision = await self._store.list(request["prefix"])
        last = max(0, len(entries) - 1) // ENTRIES_PER_FRAME * ENTRIES_PER_FRAME
        for start in range(0, last, ENTRIES_PER_FRAME):
            self._send({"id": request["id"], "entries": messages.rows(entries[start : start + ENTRIES_PER_FRAME]), "more": True})
        return {"entries": messages.rows(entries[last:]), "revision": revision}

    async def _commit(self, request: Message) -> Message:
        name = request["session"]
        if name is not None and name not in self._sessions:
            raise SessionEndedError("the session with the metadata store has ended")
        outcome = await self._store.commit(
            puts={key: messages.value(value) for key, value in request["puts"].items()},
            deletes=request["deletes"],
            compare=request["compare"],
            session=None if name is None else self._sessions[name].session,
        )
        return {"conflict": list(outcome)} if isinstance(outcome, Conflict) else {"revision": outcome}

    async def _open_session(self, ttl_ms: int) -> Message:
        session = await self._store.open_session(ttl_ms=ttl_ms, renew_ms=ttl_ms)
        self._last_session += 1
        name = str(self._last_session)
        self._sessions[name] = _Served(session, ttl_ms)
        if self._writer.is_closing():
            await self._end_session(name)
        return self._renewed(name)

    def _renewed(self, name: str) -> Message:
        served = self._sessions.get(name)
        if served is None or served.session.ended.is_set():
            return {"session": name, "ttl_ms": 0}
        if served.timer is not None:
            served.timer.cancel()
        loop = asyncio.get_running_loop()
        served.timer = loop.call_later(served.ttl_ms / 1000, lambda: self._start(self._end_session(name)))
        return {"session": name, "ttl_ms": served.ttl_ms}

    async def _end_session(self, name: str) -> None:
        served = self._sessions.pop(name, None)
        if served is not None:
            if served.timer is not None:
                served.timer.cancel()
            await served.session.close()

    def _send_changes(self, changes: Sequence[Change]) -> None:
        self._send({"changes": messages.rows(changes)})

    def _send(self, message: Message) -> None:
        if self._writer.is_closing():
            return
        self._writer.write(messages.frame(message))
        if self._writer.transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            self._writer.transport.abort()
