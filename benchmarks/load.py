"""Generates load: one request, over and over, on some connections with some requests under way on each.

The generator runs in a process of its own, off the broker's core. The response to one request must always have the same size:
so the generator counts responses by their bytes, and can keep a broker busy although it is Python.
"""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import ssl
import struct
import subprocess
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from benchmarks.peers import pin_client
from testing.process import procstat

RECEIVE_BYTES = 1 << 18
SETTLE_S = 0.3  # of each round of small requests, for the connections to fill
SHAPES = ((1, 1), (1, 64), (50, 1), (50, 16))  # connections, small requests under way on each


@dataclass(frozen=True, kw_only=True)
class Load:
    """The load of a run: `seconds` begin after `warm_s`, and `cpu_s` is what the broker's processes spent in these seconds."""

    requests: int
    seconds: float
    cpu_s: float

    @property
    def cpu_us(self) -> float:
        return self.cpu_s * 1e6 / self.requests


class Server(Protocol):
    """The process under load: a broker, or an echo."""

    name: str
    bootstrap: str

    @property
    def pid(self) -> int:
        """The process's id."""

    def last_output(self) -> str:
        """Return the end of what the process has printed."""


class FloorServer:
    """The process of a server with which a broker is compared, and which prints its port alone. Ended by `close`."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.bootstrap = f"127.0.0.1:{int(self._process.stdout.readline())}"
        self.pid = self._process.pid

    def last_output(self) -> str:
        """Return whether the process still runs."""
        return f"it is {'running' if self._process.poll() is None else 'gone'}, and prints nothing"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def run(
    peer: Server, frame: bytes, *, connections: int, depth: int, seconds: float, warm_s: float, tls_address: str = ""
) -> Load:
    """Send `frame` (with its size) to the broker until the time is over, over TLS if that has an address of its own."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=pin_client) as pool:
        try:
            address, is_tls = tls_address or peer.bootstrap, bool(tls_address)
            return pool.submit(_generate, address, is_tls, peer.pid, frame, connections, depth, seconds, warm_s).result()
        except ConnectionError as error:
            raise RuntimeError(f"{peer.name} ended a connection: {error}\n{peer.last_output()}") from error


def connected(address: str, tls: ssl.SSLContext | None = None) -> socket.socket:
    """Return a connection to host:port, with its handshake done if it has TLS."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), 30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection if tls is None else tls.wrap_socket(connection)


def client_tls() -> ssl.SSLContext:
    """Return the TLS of a generator, which accepts any broker."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _generate(
    address: str, is_tls: bool, pid: int, frame: bytes, connections: int, depth: int, seconds: float, warm_s: float
) -> Load:
    tls = client_tls() if is_tls else None
    sockets = [connected(address, tls) for _ in range(connections)]
    response_bytes = _size_of_a_response(sockets[0], frame)
    pending = dict.fromkeys(sockets, 0)
    with selectors.EpollSelector() as selector:
        for connection in sockets:
            selector.register(connection, selectors.EVENT_READ)
            connection.sendall(frame * depth)
        _exchange(selector, pending, frame, response_bytes, warm_s)
        cpu_before, began = procstat.cpu_s(pid), time.monotonic()
        count = _exchange(selector, pending, frame, response_bytes, seconds)
        load = Load(requests=count, seconds=time.monotonic() - began, cpu_s=procstat.cpu_s(pid) - cpu_before)
    for connection in sockets:
        connection.close()
    return load


def _size_of_a_response(connection: socket.socket, frame: bytes) -> int:
    connection.sendall(frame)
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
        piece = connection.recv(RECEIVE_BYTES)
        if not piece:
            raise ConnectionError("the broker closed the connection over the request")
        data += piece
    return len(data)


def _exchange(
    selector: selectors.EpollSelector, pending: dict[socket.socket, int], frame: bytes, response_bytes: int, seconds: float
) -> int:
    """Send a request for each response, and return the number of responses; `pending` has the bytes of those not whole yet."""
    count, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        for key, _ in selector.select(0.1):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            received = len(connection.recv(RECEIVE_BYTES))
            if not received:
                raise ConnectionError("the broker closed a connection")
            while isinstance(connection, ssl.SSLSocket) and connection.pending():  # a record came with more than one buffer has
                received += len(connection.recv(RECEIVE_BYTES))
            whole, pending[connection] = divmod(pending[connection] + received, response_bytes)
            if whole:
                connection.sendall(frame * whole)
                count += whole
    return count
