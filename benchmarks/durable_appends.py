"""Measures how long an append takes until the broker acknowledges it, with and without flush settings.

    python -m benchmarks.durable_appends [--rounds 3] [--seconds 2] [--warm 8] [--no-kafka]

Each request has one record of 100 bytes, with acks=all, and each connection has one request at a time: 1 connection, 16 that
share a partition, and 16 with a partition each. The topics have no flush settings, `flush.ms=100` (which the broker checks
every 100 ms), or `flush.messages=1`. The generator takes the time from sending a request to its whole response. Brokers and
rounds take turns, after `--warm` seconds of each broker and a quarter of a second of each shape, and the median round by its
p50 counts. The first line of the figures is what a bare fsync of 100 appended bytes takes on the same disk.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import selectors
import socket
import statistics
import struct
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks import peers
from benchmarks.peers import Peer, pin_client
from testing.clients.stock import create_topic
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire.batches import sample_batch

SETTINGS = {
    "none": {},
    "flush.ms=100": {"flush.ms": "100"},
    "flush.messages=1": {"flush.messages": "1"},
}
SHAPES = ((1, 1), (16, 1), (16, 16))  # connections, partitions
OVERRIDES = {"log.flush.scheduler.interval.ms": "100"}
SETTLE_S = 0.25
FSYNCS = 200


class Latency(NamedTuple):
    p50_ms: float
    p99_ms: float
    per_second: float


def topic_of(setting: str) -> str:
    return "durable-" + setting.replace("=", "-")


def frames(topic: str, connections: int, partitions: int) -> list[bytes]:
    """Return a request for each connection."""
    record = sample_batch([Sample(None, b"v" * 100, T0_MS)])
    bodies = [raw.produce_body(7, topic, {number % partitions: record}) for number in range(connections)]
    return [raw.request(raw.PRODUCE, 7, body) for body in bodies]


def run(peer: Peer, requests: list[bytes], *, seconds: float, warm_s: float = SETTLE_S) -> Latency:
    """Send each request over and over on a connection of its own."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=pin_client) as pool:
        return pool.submit(_generate, peer.bootstrap, requests, seconds, warm_s).result()


def _generate(bootstrap: str, requests: list[bytes], seconds: float, warm_s: float) -> Latency:
    host, _, port = bootstrap.rpartition(":")
    sent: dict[socket.socket, float] = {}
    request_of: dict[socket.socket, bytes] = {}
    with selectors.EpollSelector() as selector:
        for request in requests:
            connection = socket.create_connection((host, int(port)), 30)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ)
            request_of[connection], sent[connection] = request, time.perf_counter()
            connection.sendall(request)
        _exchange(selector, sent, request_of, warm_s)
        began = time.perf_counter()
        taken = sorted(_exchange(selector, sent, request_of, seconds))
        took_s = time.perf_counter() - began
    for connection in sent:
        connection.close()
    return Latency(1000 * statistics.median(taken), 1000 * taken[len(taken) * 99 // 100], len(taken) / took_s)


def _exchange(
    selector: selectors.EpollSelector, sent: dict[socket.socket, float], request_of: dict[socket.socket, bytes], seconds: float
) -> list[float]:
    """Send requests, one at a time on each connection, and return what each response took, in seconds."""
    taken: list[float] = []
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        for key, _ in selector.select(0.1):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            response = connection.recv(4096)
            while len(response) < 4 or len(response) < 4 + struct.unpack_from(">i", response)[0]:
                piece = connection.recv(4096)
                if not piece:
                    raise ConnectionError("the broker closed a connection")
                response += piece
            now = time.perf_counter()
            taken.append(now - sent[connection])
            sent[connection] = now
            connection.sendall(request_of[connection])
    return taken


def bare_fsync_ms(folder: Path) -> float:
    """Return the median time of an fsync of a file that grows by 100 bytes."""
    taken = []
    path = folder / "fsync"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    for number in range(FSYNCS):
        os.pwrite(descriptor, bytes(100), 100 * number)
        began = time.perf_counter()
        os.fsync(descriptor)
        taken.append(time.perf_counter() - began)
    os.close(descriptor)
    path.unlink()
    return 1000 * statistics.median(taken)


def check(peer: Peer, requests: list[bytes]) -> None:
    """Assert that the broker takes such a request."""
    with raw.Connection(peer.bootstrap) as connection:
        connection.socket.sendall(requests[0])
        (size,) = struct.unpack(">i", connection.receive_exactly(4))
        reader = raw.Reader(connection.receive_exactly(size))
        reader.take(4 + 4)  # correlation id, number of topics
        reader.string()
        reader.take(4 + 4)  # number of partitions, partition
        assert reader.int16() == 0


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2, help="seconds of a round (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=8, help="seconds that warm each broker up (default: %(default)s)")
    options = peers.parsed(parser)
    rows: list[tuple[object, ...]] = []
    with peers.started(options, OVERRIDES) as running:
        print(f"A bare fsync takes {bare_fsync_ms(Path(running[0].log).parent):.2f} ms", flush=True)
        for peer in running:
            for setting, configs in SETTINGS.items():
                create_topic(peer.bootstrap, topic_of(setting), max(partitions for _, partitions in SHAPES), configs)
            requests = frames(topic_of("none"), 16, 16)
            check(peer, requests)
            run(peer, requests, seconds=SETTLE_S, warm_s=options.warm)
        for setting in SETTINGS:
            for connections, partitions in SHAPES:
                measured = measure(running, frames(topic_of(setting), connections, partitions), options)
                cells = [cell for one in measured for cell in one]
                rows.append((setting, connections, partitions, *cells))
                peers.row(rows[-1])
    columns = [f"{peer.name} {what}" for peer in running for what in ("p50, ms", "p99, ms", "1/s")]
    peers.table("Until an append is acknowledged, acks=all", ["flush settings", "connections", "partitions", *columns], rows)


def measure(running: list[Peer], requests: list[bytes], options: argparse.Namespace) -> list[Latency]:
    """Return the median round of each broker."""
    rounds: dict[str, list[Latency]] = {peer.name: [] for peer in running}
    for _ in range(options.rounds):
        for peer in running:
            rounds[peer.name].append(run(peer, requests, seconds=options.seconds))
    return [sorted(rounds[peer.name])[options.rounds // 2] for peer in running]


if __name__ == "__main__":
    main()
