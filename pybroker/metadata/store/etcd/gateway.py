"""Calls of etcd's JSON gateway: HTTP/1.1 with one JSON message in and one, or a stream of them, out.

Idea
    A failure shows what a caller must know: nothing was sent (`NotSentError`), the request went out and its response
    is lost (`LostError`, so it may have been carried out), or etcd refused it (`RefusedError`). A connection is kept
    for the next call. After a failure the next member is asked, and everything that runs on the member before ends with
    `LostError`, its watches included: a member that is paused keeps its connections open, but sends nothing.

h11 turns HTTP into bytes and back and does no input or output. An HTTP client of another library would bring more packages
(aiohttp), or make a connection for every request (Tornado).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import h11

from pybroker.metadata.store.base import StoreError
from pybroker.metadata.store.etcd.access import NOT_ENABLED, Access, is_stale
from pybroker.metadata.store.etcd.advice import advice_for

if TYPE_CHECKING:
    from pybroker.metadata.store.etcd.address import Endpoint

AUTHENTICATE: Final = "/v3/auth/authenticate"
CALL_S: Final = 5.0
LOOK_S: Final = 1.0
READ_BYTES: Final = 65_536
SHOWN_BYTES: Final = 200
UNAVAILABLE: Final = frozenset({1, 4, 14})
"""gRPC's CANCELLED, DEADLINE_EXCEEDED and UNAVAILABLE: the request may have been carried out, or may be yet."""

Message = dict[str, Any]


NO_ACCESS: Final = Access()


class NotSentError(Exception):
    """No member could be reached, so the request was not sent."""


class LostError(Exception):
    """The request was sent, and its response did not come: it may have been carried out, or may be yet."""


class RefusedError(StoreError):
    """etcd refused the request. `code` is gRPC's."""

    def __init__(self, code: int, text: str) -> None:
        advice = advice_for(text)
        super().__init__(f"etcd refuses a request: {text}" + (advice and f". {advice}"))
        self.code = code
        self.text = text


class Streams(NamedTuple):
    """The two directions of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def dial(endpoint: Endpoint, context: ssl.SSLContext | None) -> Streams:
    """Connect to a member, with TLS if there is a context."""
    return Streams(*await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context, limit=READ_BYTES))


class Gateway:
    """The JSON gateway of a cluster. `close` ends all that runs."""

    def __init__(self, endpoints: Sequence[Endpoint], access: Access = NO_ACCESS) -> None:
        """Prepare the calls. Raises StoreError for certificates that cannot be used."""
        self._endpoints, self._access = tuple(endpoints), access
        self._context = access.context() if any(endpoint.is_secure for endpoint in self._endpoints) else None
        self._token = ""  # empty: none yet, or etcd wants none
        self._one_login = asyncio.Lock()
        self._number = 0
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()

    def __str__(self) -> str:
        return ", ".join(map(str, self._endpoints))

    async def call(self, path: str, message: Message, *, within_s: float = CALL_S) -> Message:
        """Send a request and return its response. Raises NotSentError, LostError, RefusedError.

        A member that cannot be reached, or does not respond, `within_s` is given up.
        """
        token = self._token or await self._login("", within_s)
        try:
            return await self._call(path, message, token, within_s)
        except RefusedError as error:
            if not self._access.user or not is_stale(error.code, error.text):
                raise
        return await self._call(path, message, await self._login(token, within_s), within_s)

    async def stream(self, path: str, message: Message) -> AsyncGenerator[Message]:
        """Send a request and yield the messages of its response as they come. Raises as `call`."""
        token = await self._login(self._token, CALL_S)  # because a watch with an old one is refused in other words
        async with self._connection(CALL_S) as connection:
            held = b""
            async for part in connection.request(path, message, token):
                *lines, held = (held + part).split(b"\n")
                for line in lines:
                    yield _checked(json.loads(line))

    async def described(self) -> str:
        """Return for each member whether it can be reached, for a person."""
        return "; ".join(await asyncio.gather(*map(self._state, self._endpoints)))

    async def _state(self, endpoint: Endpoint) -> str:
        try:
            async with asyncio.timeout(LOOK_S):
                streams = await dial(endpoint, self._context if endpoint.is_secure else None)
        except (OSError, TimeoutError) as error:
            return f"{endpoint}: {_reason(error)}"
        streams.writer.close()
        return f"{endpoint} can be reached"

    def close(self) -> None:
        """Close all connections."""
        for connection in (*self._idle, *self._busy):
            connection.close()
        self._idle.clear()

    async def _login(self, refused: str, within_s: float) -> str:
        """Return a token that is not the one that was `refused`; an empty one without a user. Raises as `call`."""
        access = self._access
        if not access.user:
            return ""
        async with self._one_login:
            if self._token == refused:  # else another call has a new one
                try:
                    response = await self._call(AUTHENTICATE, {"name": access.user, "password": access.password}, "", within_s)
                except RefusedError as error:
                    if NOT_ENABLED not in error.text:
                        raise
                    response = {}
                self._token = str(response.get("token", ""))
            return self._token

    async def _call(self, path: str, message: Message, token: str, within_s: float) -> Message:
        async with self._connection(within_s) as connection, asyncio.timeout(within_s):
            body = b"".join([part async for part in connection.request(path, message, token)])
        return _checked(_parsed(body))

    @contextlib.asynccontextmanager
    async def _connection(self, within_s: float) -> AsyncIterator[_Connection]:
        connection = self._idle.pop() if self._idle else await self._connect(within_s)
        self._busy.add(connection)
        number = self._number
        try:
            yield connection
        except (OSError, EOFError, TimeoutError, h11.RemoteProtocolError, json.JSONDecodeError) as error:
            self._leave(number)
            raise LostError(str(error) or "no response in time") from error
        finally:
            self._busy.discard(connection)
            if connection.may_be_kept:
                self._idle.append(connection)
            else:
                connection.close()

    async def _connect(self, within_s: float) -> _Connection:
        failures = []
        for _ in self._endpoints:
            number, endpoint = self._number, self._endpoints[self._number % len(self._endpoints)]
            try:
                async with asyncio.timeout(within_s):
                    return _Connection(await dial(endpoint, self._context if endpoint.is_secure else None), str(endpoint))
            except (OSError, TimeoutError) as error:
                failures.append(f"{endpoint}: {_reason(error)}")
                self._leave(number)
        raise NotSentError(f"no member of etcd can be reached ({'; '.join(failures)})")

    def _leave(self, number: int) -> None:
        """Ask the next member from now on, unless another call has already decided so."""
        if number == self._number:
            self._number += 1
            self.close()


class _Connection:
    """A connection to one member, for one request at a time."""

    def __init__(self, streams: Streams, host: str) -> None:
        self._reader, self._writer = streams
        self._http = h11.Connection(h11.CLIENT)
        self._host = host.partition("//")[2]

    @property
    def may_be_kept(self) -> bool:
        """Whether the last request has ended, and the member keeps the connection."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        return self._http.our_state is h11.IDLE and not self._writer.is_closing()

    async def request(self, path: str, message: Message, token: str) -> AsyncIterator[bytes]:
        """Send a request and yield the bytes of its response as they come. Raises OSError, EOFError, RemoteProtocolError."""
        body = json.dumps(message, separators=(",", ":")).encode()
        headers = [("Host", self._host), ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        headers += [("Authorization", token)] if token else []
        events = (h11.Request(method="POST", target=path, headers=headers), h11.Data(data=body), h11.EndOfMessage())
        self._writer.write(b"".join(filter(None, map(self._http.send, events))))
        await self._writer.drain()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                received = await self._reader.read(READ_BYTES)
                if not received and self._http.their_state is h11.SEND_RESPONSE:
                    raise EOFError("the connection was closed")
                self._http.receive_data(received)
            elif isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            elif isinstance(event, h11.ConnectionClosed):
                raise EOFError("the connection was closed")

    def close(self) -> None:
        self._writer.close()


def _parsed(body: bytes) -> Message:
    """Return a response. Raises LostError for one that is no JSON, as that of a proxy."""
    try:
        message: Message = json.loads(body)
    except ValueError as error:
        raise LostError(f"the response is no JSON: {body[:SHOWN_BYTES].decode(errors='replace').strip()}") from error
    return message


def _checked(response: Message) -> Message:
    """Return a response that is no error; the message of a stream is in `result`. Raises LostError, RefusedError."""
    error = response.get("error")
    if error is None:
        result: Message = response.get("result", response)
        return result
    found = error if isinstance(error, dict) else response  # of a stream, or of a call
    code, text = int(found.get("grpc_code") or found.get("code") or 0), str(found.get("message", error))
    if code in UNAVAILABLE:
        raise LostError(f"etcd could not carry out a request, perhaps because a majority of its members is missing: {text}")
    raise RefusedError(code, text)


def _reason(error: Exception) -> str:
    """Return why a member cannot be reached, without its address."""
    if isinstance(error, socket.gaierror):
        return error.strerror or "no address"
    number = None if isinstance(error, ssl.SSLError) else getattr(error, "errno", None)  # TLS has numbers of its own
    return os.strerror(number) if number else str(error) or "no response in time"
