"""The HTTP server of the metrics: /metrics, /livez and /readyz, in a thread and on an event loop of its own.

Tornado serves it, whose HTTP/1 server is a library of its own there (docs/design/metrics.md has the reasons). What it leaves to
its user is here: how many connections there are, and how long one may last. A connection serves one request. When there are
too many, a new one takes the place of the oldest that has not sent its request, so silent clients keep no scraper out.

The module is imported only when metrics are on: tornado and prometheus_client cost some 10 MB and 80 ms.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from prometheus_client import CollectorRegistry, generate_latest
from tornado.http1connection import HTTP1ConnectionParameters, HTTP1ServerConnection
from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerConnectionDelegate,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import IOStream

from pybroker.metrics.exporter import EVERYTHING, BrokerCollector, Scope
from pybroker.metrics.pages import Breaks, Pages, StoppedError
from pybroker.powers import is_power_of_ten

if TYPE_CHECKING:
    from tornado.httputil import HTTPConnection

    from pybroker.metrics.broker_metrics import BrokerMetrics

logger = logging.getLogger(__name__)
logging.getLogger("tornado.general").setLevel(logging.CRITICAL)  # it has what strangers send, and no bug of ours

CONNECTIONS_MAX: Final = 32
CONNECTION_S: Final = 30.0
"""The time that a connection may last, from its first byte to the last one of its response."""

BACKLOG: Final = 128
RETRY_S: Final = 1.0
"""The time until the next accept after one that failed, mostly because no descriptor was left."""

HEADER_BYTES_MAX: Final = 16_384
READ_BYTES_MAX: Final = 65_536
LOOP_S: Final = 5.0
"""The time after which a loop that does not respond is not alive."""

LOOP_POLL_S: Final = 0.005
_STOP_S: Final = 2.0
_TEXT: Final = "text/plain; charset=utf-8"
_PAGE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Response(NamedTuple):
    """A response; `gzip` is its body compressed, if that was done."""

    status: int
    body: bytes
    content_type: str = _TEXT
    gzip: bytes | None = None


class MetricsServer:
    """The server of one broker. `start` and `stop` are called once each, from the broker's event loop."""

    def __init__(
        self,
        metrics: BrokerMetrics,
        scope: Scope = EVERYTHING,
        *,
        why_not_ready: Callable[[], str | None] = lambda: None,
        connection_s: float = CONNECTION_S,
    ) -> None:
        """`why_not_ready` returns None when the broker is ready; it runs in another thread and only looks at plain attributes."""
        self._breaks = Breaks()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(BrokerCollector(metrics, scope, self._breaks.take))
        self._why_not_ready = why_not_ready
        self._connection_s = connection_s
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], object] = lambda: None

    def start(self, host: str, port: int) -> int:
        """Listen, and return the port, which is the given one unless that is 0. Raises OSError that names the address."""
        address = (host or "0.0.0.0", port)  # noqa: S104
        try:
            family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
            listening = socket.create_server(address, family=family, backlog=BACKLOG)
        except OSError as error:
            raise OSError(error.errno, f"metrics.listener={host}:{port}: cannot listen: {error.strerror or error}") from error
        listening.setblocking(False)
        bound_port: int = listening.getsockname()[1]
        loop, stop = asyncio.SelectorEventLoop(), asyncio.Event()
        self._stop = partial(loop.call_soon_threadsafe, stop.set)
        serving = self._serve(listening, asyncio.get_running_loop(), stop)
        self._thread = threading.Thread(target=_run, args=(loop, serving), name="metrics", daemon=True)
        self._thread.start()
        return bound_port

    def stop(self) -> None:
        """Close all sockets. A page in work is dropped."""
        if self._thread is not None:
            self._stop()
            self._thread.join(_STOP_S)
            self._thread = None

    async def _serve(self, listening: socket.socket, broker_loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        pages = Pages(partial(generate_latest, self._registry), self._breaks)
        server = _Server(_Responder(pages, broker_loop, self._why_not_ready), self._connection_s)
        server.listen(listening)
        await stop.wait()
        server.close_all()
        pages.stop()


def _run(loop: asyncio.AbstractEventLoop, serving: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(serving)


class _Responder:
    """Finds the response to a request."""

    def __init__(self, pages: Pages, broker_loop: asyncio.AbstractEventLoop, why_not_ready: Callable[[], str | None]) -> None:
        self._pages = pages
        self._broker_loop = broker_loop
        self._why_not_ready = why_not_ready

    async def respond(self, request: RequestStartLine) -> Response:
        """Return the response."""
        if request.method not in {"GET", "HEAD"}:
            return Response(405, b"The method must be GET or HEAD\n")
        path = request.path.partition("?")[0]
        if path == "/metrics":
            return await self._page()
        if path == "/livez":
            reason = None if await self._is_alive() else f"The event loop has not responded for {LOOP_S:g} s"
        elif path == "/readyz":
            reason = self._why_not_ready()
        else:
            return Response(404, b"The paths are /metrics, /livez and /readyz\n")
        return Response(200, b"ok\n") if reason is None else Response(503, f"{reason}\n".encode())

    async def _page(self) -> Response:
        try:
            page = await self._pages.page()
        except StoppedError:
            return Response(503, b"The broker stops\n")
        except Exception:
            logger.exception("The page of metrics cannot be made because of a bug; the scraper gets an error")
            return Response(500, b"The page cannot be made; the log has the reason\n")
        return Response(200, page.plain, _PAGE, page.gzip)

    async def _is_alive(self) -> bool:
        """Return whether the broker's event loop runs what it is given."""
        beats: list[None] = []
        self._broker_loop.call_soon_threadsafe(beats.append, None)
        for _ in range(round(LOOP_S / LOOP_POLL_S)):
            await asyncio.sleep(LOOP_POLL_S)
            if beats:
                return True
        return False


class _Server(HTTPServerConnectionDelegate):
    """Accepts connections, and closes those that are too many or last too long.

    Tornado's own server was rejected for this: when no descriptor is left, it tries and logs without a pause.
    """

    def __init__(self, responder: _Responder, connection_s: float) -> None:
        self.responder = responder
        self.tasks: set[asyncio.Task[None]] = set()
        self._listening: socket.socket
        self._retry: asyncio.TimerHandle | None = None
        self._failures = 0
        self._connection_s = connection_s
        self._parameters = HTTP1ConnectionParameters(no_keep_alive=True, max_header_size=HEADER_BYTES_MAX, max_body_size=0)
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
                    logger.warning("Cannot accept connections at metrics.listener; they wait: %s", error.strerror)
                return
            self._serve(IOStream(accepted, max_buffer_size=READ_BYTES_MAX))

    def _serve(self, stream: IOStream) -> None:
        if len(self._ends) >= CONNECTIONS_MAX:
            silent = next((one for one in self._ends if one not in self._asked), None)
            if silent is None:
                stream.close()
                return
            self._close(silent)
        connection = HTTP1ServerConnection(stream, self._parameters)
        self._ends[connection] = asyncio.get_running_loop().call_later(self._connection_s, stream.close)
        connection.start_serving(self)

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Return what gets the connection's request."""
        return _Request(self, cast("HTTP1ServerConnection", server_conn), request_conn)

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


class _Request(HTTPMessageDelegate):
    """The request of a connection."""

    def __init__(self, server: _Server, server_connection: HTTP1ServerConnection, connection: HTTPConnection) -> None:
        self._server = server
        self._server_connection = server_connection
        self._connection = connection
        self._takes_gzip = False
        self._start_line: RequestStartLine | None = None

    def headers_received(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> None:
        """Keep what the response depends on."""
        self._start_line = cast("RequestStartLine", start_line)
        self._takes_gzip = "gzip" in {one.partition(";")[0].strip() for one in headers.get("Accept-Encoding", "").split(",")}

    def finish(self) -> None:
        """Begin to respond, because the request is complete."""
        self._server.note_request(self._server_connection)
        task = asyncio.get_running_loop().create_task(self._respond())
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    async def _respond(self) -> None:
        assert self._start_line is not None
        response = await self._server.responder.respond(self._start_line)
        headers = HTTPHeaders({"Content-Type": response.content_type})
        body = response.body
        if response.gzip is not None and self._takes_gzip:
            headers["Content-Encoding"], body = "gzip", response.gzip
        if response.status == 405:
            headers["Allow"] = "GET, HEAD"
        headers["Content-Length"] = str(len(body))
        start_line = ResponseStartLine("HTTP/1.1", response.status, HTTPStatus(response.status).phrase)
        self._connection.write_headers(start_line, headers)
        if self._start_line.method != "HEAD":
            self._connection.write(body)
        self._connection.finish()
