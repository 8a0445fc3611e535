"""The server of the metrics over HTTP: its paths, and the bounds on connections, time and threads."""

from __future__ import annotations

import asyncio
import errno
import gzip
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from pybroker import http_server
from pybroker.http_server import CONNECTIONS_MAX, HEADER_BYTES_MAX
from pybroker.metrics.broker_metrics import BrokerMetrics
from pybroker.metrics.http_server import MetricsServer
from testing.waiting import until

TIMEOUT_S = 30
HALF_OPEN = 200
LARGE = 16 << 20


@asynccontextmanager
async def serving(
    metrics: BrokerMetrics | None = None,
    *,
    why_not_ready: Callable[[], str | None] = lambda: None,
    connection_s: float = TIMEOUT_S,
) -> AsyncIterator[int]:
    server = MetricsServer(metrics or BrokerMetrics(), why_not_ready=why_not_ready, connection_s=connection_s)
    port = server.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        server.stop()


def connect(port: int, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
    connection.sendall(data)
    return connection


def received(connection: socket.socket) -> bytes:
    """Return all bytes until the server closes the connection."""
    data = b""
    try:
        while some := connection.recv(1 << 16):
            data += some
    except ConnectionResetError:
        pass
    return data


def raw(port: int, data: bytes) -> bytes:
    with connect(port, data) as connection:
        return received(connection)


def get(port: int, path: str, method: str = "GET", headers: str = "") -> tuple[int, str, bytes]:
    """Return the status, the header and the body of a response."""
    response = raw(port, f"{method} {path} HTTP/1.1\r\nHost: a\r\n{headers}\r\n".encode())
    head, _, body = response.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode(), body


async def ask(port: int, path: str, method: str = "GET", headers: str = "") -> tuple[int, str, bytes]:
    return await asyncio.to_thread(get, port, path, method, headers)


@contextmanager
def half_open(port: int, count: int, data: bytes = b"GET /metr") -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(connect(port, data)) for _ in range(count)]


def trickle(connection: socket.socket) -> None:
    """Send a byte now and then, until that fails."""
    for _ in range(TIMEOUT_S * 100):
        connection.sendall(b"x")
        time.sleep(0.01)


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_the_paths_and_nothing_else() -> None:
    metrics = BrokerMetrics()
    metrics.topic("t").messages_in = 42
    async with serving(metrics) as port:
        status, head, page = await ask(port, "/metrics?x=1")
        assert status == 200
        assert "Content-Type: text/plain; version=0.0.4" in head
        assert b"\nkafka_server_brokertopicmetrics_messagesin_total 42.0\n" in page
        assert (await ask(port, "/livez"))[::2] == (200, b"ok\n")
        assert (await ask(port, "/readyz"))[::2] == (200, b"ok\n")
        for path in ("/", "/healthz", "/metrics/", "/metricsx", "/nonsense"):
            assert (await ask(port, path))[0] == 404
        status, head, body = await ask(port, "/metrics", "POST")
        assert (status, "Allow: GET, HEAD" in head, body) == (405, True, b"The method must be GET or HEAD\n")
        status, head, body = await ask(port, "/metrics", "HEAD")
        assert (status, body) == (200, b"")
        assert f"Content-Length: {len(page)}" in head


async def test_a_scraper_that_takes_gzip_gets_it() -> None:
    async with serving() as port:
        _, head, body = await ask(port, "/metrics", headers="Accept-Encoding: deflate, gzip;q=1.0\r\n")
        assert "Content-Encoding: gzip" in head
        assert b"# HELP kafka_" in gzip.decompress(body)
        _, head, body = await ask(port, "/metrics")
        assert "Content-Encoding" not in head


async def test_why_the_broker_is_not_ready_is_in_the_response() -> None:
    reason: str | None = "starting"
    async with serving(why_not_ready=lambda: reason) as port:
        assert (await ask(port, "/readyz"))[::2] == (503, b"starting\n")
        assert (await ask(port, "/livez"))[0] == 200
        reason = None
        assert (await ask(port, "/readyz"))[0] == 200


async def test_a_loop_that_stands_still_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "LOOP_S", 0.1)
    async with serving() as port:
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(get(port, "/livez")[0]))
        thread.start()
        thread.join(TIMEOUT_S)  # nothing runs on this loop meanwhile
        assert found == [503]
        assert (await ask(port, "/livez"))[0] == 200


async def test_half_open_connections_cost_no_threads_and_keep_no_scraper_out() -> None:
    async with serving() as port:
        await ask(port, "/metrics")
        threads, before = threading.active_count(), descriptors()
        with half_open(port, HALF_OPEN) as connections:
            assert (await ask(port, "/metrics"))[0] == 200
            assert threading.active_count() <= threads + 1  # this test asks in threads
            for connection in connections[: HALF_OPEN - CONNECTIONS_MAX]:
                assert await asyncio.to_thread(received, connection) == b"", "the oldest made place"
            assert descriptors() <= before + HALF_OPEN + CONNECTIONS_MAX


async def test_a_connection_ends_after_its_time_whatever_it_does() -> None:
    async with serving(connection_s=0.3) as port:
        await ask(port, "/metrics")
        before = descriptors()
        with half_open(port, CONNECTIONS_MAX // 2) as silent, half_open(port, 1) as talking:
            with pytest.raises(OSError, match=r"reset|Broken"):
                await asyncio.to_thread(trickle, talking[0])  # a byte now and then is no reason to stay
            for connection in silent:
                assert await asyncio.to_thread(received, connection) == b""
        assert descriptors() == before


async def test_a_client_that_reads_no_page_loses_its_connection() -> None:
    metrics = BrokerMetrics()
    metrics.labelled_gauge("large", "Large", ("text",), lambda: {("x" * LARGE,): 1})  # more than the sockets' buffers hold
    async with serving(metrics, connection_s=3) as port:
        before = descriptors()
        with connect(port, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n") as slow:
            assert await asyncio.to_thread(slow.recv, 1)
            until(lambda: descriptors() == before + 1, "the server closes its end")
            assert len(await asyncio.to_thread(received, slow)) < LARGE


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /metrics\r\n\r\n",  # HTTP/0.9 has no version
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        b"GET /metrics HTTP/1.1\r\nX: " + b"x" * HEADER_BYTES_MAX + b"\r\n\r\n",
        b"\r\n\r\n",
    ],
)
async def test_what_is_no_request_gets_no_page(request_: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as port:
        response = await asyncio.to_thread(raw, port, request_)
        assert response in {b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"}
        assert not caplog.records
        assert (await ask(port, "/livez"))[0] == 200


async def test_a_stop_waits_for_no_client_and_no_page() -> None:
    metrics = BrokerMetrics()
    has_begun = threading.Event()

    def many() -> dict[tuple[str, ...], int]:
        has_begun.set()
        return {(str(number),): number for number in range(300_000)}

    metrics.labelled_gauge("many", "Many", ("number",), many)
    server = MetricsServer(metrics)
    port = server.start("127.0.0.1", 0)
    with half_open(port, 5), connect(port, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n") as scraper:
        assert await asyncio.to_thread(has_begun.wait, TIMEOUT_S)
        server.stop()
        assert "metrics" not in {thread.name for thread in threading.enumerate()}
        assert await asyncio.to_thread(received, scraper) == b""
    server.stop()
    with pytest.raises(OSError, match="refused"):
        connect(port)


async def test_a_scraper_waits_while_no_descriptor_is_left_and_the_log_shows_it_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_server, "RETRY_S", 0.1)
    accept = socket.socket.accept
    failures = [OSError(errno.EMFILE, "Too many open files") for _ in range(4)]

    def accept_or_fail(listening: socket.socket) -> tuple[socket.socket, object]:
        if failures:
            raise failures.pop()
        return accept(listening)

    monkeypatch.setattr(socket.socket, "accept", accept_or_fail)
    async with serving() as port:
        began = time.monotonic()
        assert (await ask(port, "/livez"))[0] == 200
        assert time.monotonic() - began >= 0.4, "there is a pause after each failure"
    assert [one.getMessage() for one in caplog.records if one.levelname != "DEBUG"] == [
        "Cannot accept connections at metrics.listener; they wait: Too many open files"
    ]


async def test_the_error_of_a_taken_port_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"metrics\.listener=127\.0\.0\.1:{port}: cannot listen"):
            MetricsServer(BrokerMetrics()).start("127.0.0.1", port)


async def test_a_page_that_cannot_be_made_is_an_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    metrics = BrokerMetrics()
    metrics.gauge("broken", "Broken", lambda: 1 // 0)
    async with serving(metrics) as port:
        assert (await ask(port, "/metrics"))[0] == 500
        assert (await ask(port, "/livez"))[0] == 200
    assert "The page of metrics cannot be made because of a bug" in caplog.text
