"""The store of a process that another process of the machine owns.

There is one connection, which is opened by the first use and never again. When it ends, the process that owns the store has ended
or has closed it, and this process must end too. Until then every request fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pybroker.metadata.store.base import (
    Conflict,
    Entry,
    Limits,
    Listing,
    OutcomeUnknownError,
    Session,
    SessionEndedError,
    Store,
    StoreError,
)
from pybroker.metadata.store.renewal import Lease, RenewedSession
from pybroker.metadata.store.shared import messages

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.metadata.store.shared.messages import Message

logger = logging.getLogger(__name__)

LIMITS: Final = Limits(operations_max=500, bytes_max=4_000_000)
"""Bounds for one turn of the loop, in which a frame is encoded or decoded."""

_ERRORS: Final = {"SessionEndedError": SessionEndedError, "OutcomeUnknownError": OutcomeUnknownError}


class _LostError(StoreError):
    """The connection ended before the response came."""


class SharedStore(Store):
    """The store on the socket at `path`. `on_lost` is called when its connection ends before `close`."""

    limits = LIMITS

    def __init__(self, path: Path, on_lost: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self._path, self._on_lost = path, on_lost
        self._connecting = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._listed: dict[int, list[Entry]] = {}
        self._sessions: list[RenewedSession] = []
        self._last_id = 0

    async def get(self, key: str) -> Entry | None:
        """Return the entry of `key`, or None."""
        response = await self._request({"do": "get", "key": key})
        return next(iter(response["entries"]), None)

    async def list(self, prefix: str = "") -> Listing:
        """Return all entries whose key starts with `prefix`."""
        response = await self._request({"do": "list", "prefix": prefix})
        return Listing(tuple(response["entries"]), response["revision"])

    async def open_session(self, *, ttl_ms: int, renew_ms: int) -> Session:
        """Open a session, which ends with the connection at the latest. Raises StoreError."""
        loop = asyncio.get_running_loop()
        self._check_open()
        sent_s = loop.time()
        lease = _lease_of(await self._request({"do": "open", "ttl_ms": ttl_ms}))
        session = RenewedSession(lease, self._renew, self._end_session, sent_s=sent_s, renew_s=renew_ms / 1000)
        self._sessions = [session, *(one for one in self._sessions if not one.ended.is_set())]
        return session

    async def _renew(self, session: RenewedSession) -> Lease:
        return _lease_of(await self._request({"do": "renew", "session": session.lease_id}))

    async def _end_session(self, session: RenewedSession) -> None:
        await self._uninterrupted.run(self._session_ended(session))

    async def _session_ended(self, session: RenewedSession) -> None:
        async with self._one_commit:
            session.mark_ended()
            await self._request({"do": "end", "session": session.lease_id})

    async def _commit(
        self, puts: dict[str, bytes], deletes: set[str], compare: dict[str, int], session: Session | None
    ) -> int | Conflict:
        self.limits.check(puts, deletes, compare)
        assert session is None or isinstance(session, RenewedSession), "a session of another store"
        request = {
            "do": "commit",
            "puts": {key: messages.text(value) for key, value in puts.items()},
            "deletes": [*deletes],
            "compare": compare,
            "session": None if session is None else session.lease_id,
        }
        try:
            response = await self._request(request)
        except _LostError as error:
            raise OutcomeUnknownError(
                f"it is not known whether a change of the metadata was made, and this broker stops: {error}"
            ) from error
        except SessionEndedError as error:
            if session is not None:
                session.mark_ended(str(error))
            raise
        return Conflict(*response["conflict"]) if "conflict" in response else int(response["revision"])

    async def _release(self) -> None:
        for session in self._sessions:
            session.mark_ended("this process stops")
        if self._writer is not None:
            self._writer.close()
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading

    async def _request(self, message: dict[str, Any]) -> Message:
        """Send a request and return its response. Raises StoreError, and _LostError if it was sent."""
        writer = await self._connected()
        self._last_id += 1
        number = self._last_id
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            writer.write(messages.frame({"id": number, **message}))
            response: Message = await waiting
        finally:
            del self._waiting[number]
            self._listed.pop(number, None)
        if "error" in response:
            raise _ERRORS.get(response["kind"], StoreError)(response["error"])
        return response

    async def _connected(self) -> asyncio.StreamWriter:
        async with self._connecting:
            if self._writer is None:
                try:
                    reader, self._writer = await asyncio.open_unix_connection(self._path)
                except OSError as error:
                    raise StoreError(
                        f"the parent process with the metadata store cannot be reached at {self._path}: {error.strerror or error}"
                    ) from error
                self._reading = asyncio.get_running_loop().create_task(self._read(reader))
        if self._writer.is_closing():
            raise StoreError(f"the connection to the metadata store at {self._path} has ended")
        return self._writer

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                await self._take(await messages.read(reader))
        except (EOFError, OSError, StoreError) as error:
            self._lose(error)

    async def _take(self, message: Message) -> None:
        number = message.get("id")
        if number is None:
            self._call_watches(messages.changes(message["changes"]))
            return
        waiting = self._waiting.get(number)
        if waiting is None or waiting.done():  # the request was cancelled
            return
        if "entries" in message:
            listed = self._listed.setdefault(number, [])
            listed += messages.entries(message["entries"])
            if "more" in message:
                return
            message["entries"] = listed
        waiting.set_result(message)
        await asyncio.sleep(0)  # the caller has the response before the changes behind it are seen

    def _lose(self, error: Exception) -> None:
        assert self._writer is not None
        self._writer.close()
        logger.error(
            "The parent process, which has the metadata store, has ended or closed its socket %s, so this broker stops",
            self._path,
        )
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(_LostError(f"the connection to the metadata store has ended: {error}"))
        for session in self._sessions:
            if not session.ended.is_set():
                session.mark_ended("the connection to the process with the metadata store has ended")
        self._on_lost()


def _lease_of(response: Message) -> Lease:
    return Lease(response["session"], response["ttl_ms"] / 1000)
