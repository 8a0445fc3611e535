"""An HTTP server of a broker, in a thread and on an event loop of its own. What it responds is its user's.

Tornado serves it, whose HTTP/1 server is a library of its own there (docs/design/metrics.md has the reasons). What it leaves to
its user is here: how many connections there are, and how long one may last. A connection serves one request. When there are
too many, a new one takes the place of the oldest that has not sent its request, so silent clients keep no other out.

The module is imported only where there is such a server: tornado costs some 3 MB and 30 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from tornado.http1connection import HTTP1ConnectionParameters, HTTP1ServerConnection
from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerConnectionDelegate,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import IOStream, SSLIOStream

from pybroker.powers import is_power_of_ten

if TYPE_CHECKING:
    from ssl import SSLContext

    from tornado.httputil import HTTPConnection

logger = logging.getLogger(__name__)
logging.getLogger("tornado.general").setLevel(logging.CRITICAL)  # it has what strangers send, and no bug of ours

CONNECTIONS_MAX: Final = 32
BACKLOG: Final = 128
RETRY_S: Final = 1.0
"""The time until the next accept after one that failed, mostly because no descriptor was left."""

HEADER_BYTES_MAX: Final = 16_384
READ_BYTES_MAX: Final = 65_536
LOOP_S: Final = 5.0
"""The time after which a loop that does not respond is not alive."""

NOT_ALIVE: Final = f"The event loop has not responded for {LOOP_S:g} s"
LOOP_POLL_S: Final = 0.005
_STOP_S: Final = 2.0
UNAUTHORIZED: Final = 401
CHALLENGE: Final = (("WWW-Authenticate", "Bearer"),)
TEXT: Final = "text/plain; charset=utf-8"


class Request(NamedTuple):
    """A request. `path` has the query; `body` is None if it was longer than the server takes; `host` is its client's address."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None
    host: str = ""


class Response(NamedTuple):
    """A response; `gzip` is its body compressed, if that was done."""

    status: int
    body: bytes
    content_type: str = TEXT
    gzip: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()


class Bounds(NamedTuple):
    """The limits of a connection.

    Attributes:
        connection_s: the time that it may last, from its first byte to the last one of its response.
        body_bytes: the body of a request; a longer one is read, and forgotten.
        read_bytes: the body that is read at all; a connection with a longer one is closed.
    """

    connection_s: float
    body_bytes: int = 0
    read_bytes: int = 0


Context = Callable[[], "SSLContext"]
"""Returns the TLS of the next connection."""


class Responder(Protocol):
    """Finds responses, in the server's loop."""

    async def respond(self, request: Request) -> Response:
        """Return the response."""

    def stop(self) -> None:
        """End what is in work, because the server stops."""


class HttpServer:
    """A server on one address. `start` and `stop` are called once each, from the broker's event loop.

    `setting` is the name of the setting that has the address, and `thread` that of the thread.
    """

    def __init__(self, setting: str, thread: str, bounds: Bounds) -> None:
        self._setting, self._name, self._bounds = setting, thread, bounds
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], object] = lambda: None

    def start(self, host: str, port: int, responder: Callable[[], Responder], context: Context | None = None) -> int:
        """Listen, and return the port, which is the given one unless that is 0. Raises OSError that names the address.

        `responder` is called in the server's thread, and `context`, which has each connection use TLS, there too.
        """
        address = (host or "0.0.0.0", port)  # noqa: S104
        try:
            family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
            listening = socket.create_server(address, family=family, backlog=BACKLOG)
        except OSError as error:
            raise OSError(error.errno, f"{self._setting}={host}:{port}: cannot listen: {error.strerror or error}") from error
        listening.setblocking(False)
        bound_port: int = listening.getsockname()[1]
        loop, stop = asyncio.SelectorEventLoop(), asyncio.Event()
        self._stop = partial(loop.call_soon_threadsafe, stop.set)
        serving = self._serve(listening, responder, stop, context)
        self._thread = threading.Thread(target=_run, args=(loop, serving), name=self._name, daemon=True)
        self._thread.start()
        return bound_port

    def stop(self) -> None:
        """Close all sockets. A response in work is dropped."""
        if self._thread is not None:
            self._stop()
            self._thread.join(_STOP_S)
            self._thread = None

    async def _serve(
        self, listening: socket.socket, responder: Callable[[], Responder], stop: asyncio.Event, context: Context | None
    ) -> None:
        responding = responder()
        server = _Connections(responding.respond, self._setting, self._bounds, context)
        server.listen(listening)
        await stop.wait()
        server.close_all()
        responding.stop()


def _run(loop: asyncio.AbstractEventLoop, serving: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(serving)


def carries(headers: Mapping[str, str], token: str | None) -> bool:
    """Return whether a request has the token, if one is needed, as `Authorization: Bearer TOKEN`; in the same time for all."""
    if token is None:
        return True
    kind, _, given = headers.get("Authorization", "").strip().partition(" ")
    is_right = hmac.compare_digest(given.strip().encode(), token.encode())
    return is_right and kind.lower() == "bearer"


async def is_alive(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether another event loop runs what it is given, within LOOP_S."""
    beats: list[None] = []
    loop.call_soon_threadsafe(beats.append, None)
    for _ in range(round(LOOP_S / LOOP_POLL_S)):
        await asyncio.sleep(LOOP_POLL_S)
        if beats:
            return True
    return False


def _peer_host(connection: HTTP1ServerConnection) -> str:
    """Return the address of a client; empty if it has gone."""
    try:
        return str(connection.stream.socket.getpeername()[0])
    except (OSError, AttributeError):
        return ""


class _Connections(HTTPServerConnectionDelegate):
    """Accepts connections, and closes those that are too many or last too long.

    Tornado's own server was rejected for this: when no descriptor is left, it tries and logs without a pause.
    """

    def __init__(
        self,
        respond: Callable[[Request], Awaitable[Response]],
        setting: str,
        bounds: Bounds,
        context: Context | None,
    ) -> None:
        self.respond = respond
        self.bounds = bounds
        self._context = context
        self.tasks: set[asyncio.Task[None]] = set()
        self._setting = setting
        self._listening: socket.socket
        self._retry: asyncio.TimerHandle | None = None
        self._failures = 0
        self._parameters = HTTP1ConnectionParameters(
            no_keep_alive=True, max_header_size=HEADER_BYTES_MAX, max_body_size=bounds.read_bytes
        )
        self._ends: dict[HTTP1ServerConnection, asyncio.TimerHandle] = {}  # the oldest connection first
        self._asked: set[HTTP1ServerConnection] = set()  # those whose request is here

    def listen(self, listening: socket.socket) -> None:
        """Accept connections. The socket is the server's now."""
        self._listening = listening
        self._watch()

    def _watch(self) -> None:
        self._retry = None
        asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(BACKLOG):
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                loop = asyncio.get_running_loop()
                loop.remove_reader(self._listening)
                self._retry = loop.call_later(RETRY_S, self._watch)
                self._failures += 1
                if is_power_of_ten(self._failures):  # the cause may last
                    logger.warning("Cannot accept connections at %s; they wait: %s", self._setting, error.strerror)
                return
            with contextlib.suppress(OSError):  # the client has gone before TLS began
                self._serve(self._stream_of(accepted))

    def _stream_of(self, accepted: socket.socket) -> IOStream:
        """Return the stream of a connection, in which the first read does the handshake of TLS."""
        if self._context is None:
            return IOStream(accepted, max_buffer_size=READ_BYTES_MAX)
        accepted.setblocking(False)
        try:
            secured = self._context().wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
        except OSError:
            accepted.close()
            raise
        return SSLIOStream(secured, max_buffer_size=READ_BYTES_MAX)

    def _serve(self, stream: IOStream) -> None:
        if len(self._ends) >= CONNECTIONS_MAX:
            silent = next((one for one in self._ends if one not in self._asked), None)
            if silent is None:
                stream.close()
                return
            self._close(silent)
        connection = HTTP1ServerConnection(stream, self._parameters)
        self._ends[connection] = asyncio.get_running_loop().call_later(self.bounds.connection_s, stream.close)
        connection.start_serving(self)

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Return what gets the connection's request."""
        return _Receiver(self, cast("HTTP1ServerConnection", server_conn), request_conn)

    def on_close(self, server_conn: object) -> None:
        """Forget a connection."""
        connection = cast("HTTP1ServerConnection", server_conn)
        self._asked.discard(connection)
        if (end := self._ends.pop(connection, None)) is not None:
            end.cancel()

    def note_request(self, connection: HTTP1ServerConnection) -> None:
        """Note that the connection's request is here."""
        self._asked.add(connection)

    def close_all(self) -> None:
        """Close the listening socket and the connections."""
        if self._retry is not None:
            self._retry.cancel()
        asyncio.get_running_loop().remove_reader(self._listening)
        self._listening.close()
        for connection in tuple(self._ends):
            self._close(connection)

    def _close(self, connection: HTTP1ServerConnection) -> None:
        connection.stream.close()
        self.on_close(connection)


class _Receiver(HTTPMessageDelegate):
    """The request of a connection."""

    def __init__(self, server: _Connections, server_connection: HTTP1ServerConnection, connection: HTTPConnection) -> None:
        self._server = server
        self._server_connection = server_connection
        self._connection = connection
        self._start_line: RequestStartLine | None = None
        self._headers = HTTPHeaders()
        self._body: bytearray | None = bytearray()

    def headers_received(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> None:
        """Keep what the response depends on."""
        self._start_line = cast("RequestStartLine", start_line)
        self._headers = headers

    def data_received(self, chunk: bytes) -> None:
        """Keep a part of the body, unless it is too long."""
        if self._body is not None:
            self._body += chunk
            if len(self._body) > self._server.bounds.body_bytes:
                self._body = None

    def finish(self) -> None:
        """Begin to respond, because the request is complete."""
        self._server.note_request(self._server_connection)
        task = asyncio.get_running_loop().create_task(self._respond())
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    async def _respond(self) -> None:
        assert self._start_line is not None
        method, body = self._start_line.method, None if self._body is None else bytes(self._body)
        request = Request(method, self._start_line.path, self._headers, body, _peer_host(self._server_connection))
        response = await self._server.respond(request)
        headers = HTTPHeaders({"Content-Type": response.content_type, **dict(response.headers)})
        sent = response.body
        if response.gzip is not None and self._takes_gzip:
            headers["Content-Encoding"], sent = "gzip", response.gzip
        headers["Content-Length"] = str(len(sent))
        start_line = ResponseStartLine("HTTP/1.1", response.status, HTTPStatus(response.status).phrase)
        self._connection.write_headers(start_line, headers)
        if method != "HEAD":
            self._connection.write(sent)
        self._connection.finish()

    @property
    def _takes_gzip(self) -> bool:
        return "gzip" in {one.partition(";")[0].strip() for one in self._headers.get("Accept-Encoding", "").split(",")}
