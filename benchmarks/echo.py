"""Measures the least that a server in Python pays for a small request: an echo on epoll, without asyncio and Kafka's protocol.

    python -m benchmarks.echo [--rounds 5] [--seconds 2]

The server receives what is there, and sends a response of fixed size for each whole request; nothing else. The second kind also
writes each request to the end of a file, as a produce does. So the first row is the floor of `benchmarks.small_requests` on this
machine, and the difference to the second is what the system's write to a file costs. The load and its shapes are the same.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import socket
import statistics
import sys
import tempfile
from collections.abc import Callable

from benchmarks import load, peers
from benchmarks.load import SETTLE_S, SHAPES, FloorServer
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire.batches import sample_batch

ECHO, WRITING = "echo", "echo, and a write to a file"
RESPONSE = (46).to_bytes(4) + bytes(46)  # as large as that to a Produce v7 of one partition
RECEIVE_BYTES = 1 << 17


class EchoServer(FloorServer):
    """The server's process on the brokers' core. Ended by `close`."""

    name = "echo"

    def __init__(self, kind: str, request_bytes: int) -> None:
        command = [sys.executable, "-m", "benchmarks.echo", "--serve", kind, "--request-bytes", str(request_bytes)]
        super().__init__(command)


def serve(kind: str, request_bytes: int) -> None:
    """Print the port, and serve until the process is killed."""
    os.sched_setaffinity(0, {peers.CORES[0]})
    epoll = select.epoll()
    connections: dict[int, socket.socket] = {}
    received: dict[int, int] = {}  # bytes of a request that is not whole yet
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening, tempfile.TemporaryFile() as file:
        print(listening.getsockname()[1], flush=True)
        write = _writer(file.fileno()) if kind == WRITING else None
        epoll.register(listening, select.EPOLLIN)
        while True:
            for descriptor, _ in epoll.poll():
                if descriptor == listening.fileno():
                    accepted, _ = listening.accept()
                    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    connections[accepted.fileno()], received[accepted.fileno()] = accepted, 0
                    epoll.register(accepted, select.EPOLLIN)
                    continue
                connection = connections[descriptor]
                data = _received(connection)
                if not data:
                    epoll.unregister(descriptor)
                    connections.pop(descriptor).close()
                    continue
                whole, received[descriptor] = divmod(received[descriptor] + len(data), request_bytes)
                if write is not None:
                    for number in range(whole):
                        write(data[number * request_bytes : (number + 1) * request_bytes])
                if whole:
                    with contextlib.suppress(ConnectionError):
                        connection.sendall(RESPONSE * whole)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(RECEIVE_BYTES)
    except ConnectionResetError:  # a round is over, and responses were on their way
        return b""


def _writer(descriptor: int) -> Callable[[bytes], None]:
    position = 0

    def write(data: bytes) -> None:
        nonlocal position
        position += os.pwrite(descriptor, data, position)

    return write


def frame() -> bytes:
    """Return the request of one record that `small_requests` produces."""
    record = sample_batch([Sample(None, b"v" * 100, T0_MS)])
    return raw.request(raw.PRODUCE, 7, raw.produce_body(7, "small", {0: record}, acks=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2, help="seconds of a round (default: %(default)s)")
    parser.add_argument("--serve", choices=(ECHO, WRITING), help=argparse.SUPPRESS)
    parser.add_argument("--request-bytes", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.request_bytes)
        return
    request = frame()
    rows = []
    for kind in (ECHO, WRITING):
        server = EchoServer(kind, len(request))
        try:
            cells = []
            for connections, depth in SHAPES:
                rounds = [
                    load.run(
                        server, request, connections=connections, depth=depth, seconds=options.seconds, warm_s=SETTLE_S
                    ).cpu_us
                    for _ in range(options.rounds)
                ]
                cells.append(statistics.median(rounds))
        finally:
            server.close()
        rows.append((kind, *cells))
        peers.row(rows[-1])
    shapes = (f"{connections} x {depth}" for connections, depth in SHAPES)
    peers.table(f"CPU us of the server per request of {len(request)} bytes", ["server", *shapes], rows)


if __name__ == "__main__":
    main()
