"""Measures KIP-72: 200 connections that trickle 10 MB Produce requests into a pool of 100 MB.

    python -m benchmarks.request_memory [--connections 200] [--trickle 10] [--no-pool] [--no-kafka]
    python -m benchmarks.request_memory --announce [--connections 1000] [--no-kafka]
    python -m benchmarks.request_memory --burst [--connections 100] [--no-kafka]
    python -m benchmarks.request_memory --elements [--no-kafka]

Every connection sends one request of 11 partitions x 950 kB, evenly over the trickle time, and waits for its response. Without
a bound the broker holds 2 GB of half-read requests at once. With queued.max.request.bytes it continues to read only as memory
comes back, and must respond to all requests in the end. The benchmark compares the peak of anonymous memory (RssAnon) with the
true bound, queued.max.request.bytes + socket.request.max.bytes - 1.

With --announce, every connection sends only the size of 100 MB and 10 bytes more; the figure is the growth of RssAnon for each.
Kafka allocates what is announced, so it gets no more than 5 connections (its heap is 1 GB).

With --burst, every connection sends its request at once, and there is no bound. The figures are RssAnon before, at its peak, a
second after the last response, and when it has not fallen for 10 s.

With --elements, one connection after the other sends a request with a million elements, or with as many as 100 MB have place
for. The figure is the growth of RssAnon at its peak.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import selectors
import socket
import struct
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import peers
from benchmarks.peers import Peer, pin_client
from pybroker.protocol.codec import encode_request
from pybroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pybroker.protocol.messages.fetch import FetchRequest, FetchTopic
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from testing.clients.stock import create_topic
from testing.process import procstat
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire.batches import sample_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC, PARTITIONS, BATCH_BYTES = "trickle", 11, 950_000
POOL_BYTES, REQUEST_BYTES_MAX = 104_857_601, 104_857_600
KAFKA_ANNOUNCED_MAX, SETTLE_S = 5, 2
ELEMENTS = 1_000_000
BURST_S, AFTER_S, QUIET_S = 1, 1, 10
TIMEOUT_S = 300
TICK_S = 0.02
CONNECTS_PER_TICK = 4  # not past the listen backlog


@dataclass(slots=True)
class Sender:
    """One connection: how much of the request it has sent, and what came back."""

    socket: socket.socket
    sent: int = 0
    response: bytes = b""


def trickle(bootstrap: str, request: bytes, connections: int, trickle_s: float) -> dict[str, int]:
    """Send everything and count the outcomes: "responses", "refused" (an error code), "closed", "silent"."""
    host, _, port = bootstrap.rpartition(":")
    view = memoryview(request)
    outcomes = dict.fromkeys(("responses", "refused", "closed", "silent"), 0)
    senders: list[Sender] = []
    open_count, began = 0, time.monotonic()
    with selectors.DefaultSelector() as selector:

        def done(sender: Sender, outcome: str) -> None:
            nonlocal open_count
            outcomes[outcome] += 1
            open_count -= 1
            selector.unregister(sender.socket)
            sender.socket.close()

        while (open_count or len(senders) < connections) and time.monotonic() - began < TIMEOUT_S:
            for _ in range(min(CONNECTS_PER_TICK, connections - len(senders))):
                senders.append(Sender(socket.create_connection((host, int(port)), 30)))
                senders[-1].socket.setblocking(False)
                selector.register(senders[-1].socket, selectors.EVENT_READ, senders[-1])
                open_count += 1
            due = int(len(request) * min(1.0, (time.monotonic() - began) / trickle_s))
            for sender in senders:
                if sender.sent < due and sender.socket.fileno() >= 0:
                    try:
                        sender.sent += sender.socket.send(view[sender.sent : due])
                    except BlockingIOError:
                        continue  # the broker does not read, as its bound demands
                    except ConnectionError:
                        done(sender, "closed")
            for key, _ in selector.select(TICK_S):
                sender = key.data
                try:
                    piece = sender.socket.recv(65536)
                except ConnectionError:
                    piece = b""
                sender.response += piece
                if not piece:
                    done(sender, "closed")
                elif len(sender.response) >= 4 and len(sender.response) >= 4 + struct.unpack_from(">i", sender.response)[0]:
                    done(sender, "refused" if _has_error(sender.response[8:]) else "responses")
    outcomes["silent"] = open_count
    for sender in senders:
        sender.socket.close()
    return outcomes


def _has_error(data: bytes) -> bool:
    reader = raw.Reader(data)
    reader.int32()
    reader.string()
    errors = set()
    for _ in range(reader.int32()):
        reader.int32()
        errors.add(reader.int16())
        reader.take(24)
    return errors != {0}


def measure(peer: Peer, connections: int, trickle_s: float) -> tuple[object, ...]:
    create_topic(peer.bootstrap, TOPIC, PARTITIONS)
    data = sample_batch([Sample(None, bytes(BATCH_BYTES), T0_MS)])
    request = raw.request(
        raw.PRODUCE, 7, raw.produce_body(7, TOPIC, dict.fromkeys(range(PARTITIONS), data), acks=1, timeout_ms=60_000)
    )
    with raw.Connection(peer.bootstrap) as connection:  # so that what the first request costs is not counted
        connection.socket.sendall(request)
        connection.receive(1)
    spawn = multiprocessing.get_context("spawn")
    cpu_before, began = procstat.cpu_s(peer.pid), time.monotonic()
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=pin_client) as pool, procstat.PeakSampler(peer.pid) as sampler:
        outcomes = pool.submit(trickle, peer.bootstrap, request, connections, trickle_s).result()
    seconds, cpu = time.monotonic() - began, procstat.cpu_s(peer.pid) - cpu_before
    growth = sampler.peak_bytes - sampler.before_bytes
    outcome = ", ".join(f"{count} {what}" for what, count in outcomes.items() if count)
    return outcome, sampler.before_bytes / 1e6, sampler.peak_bytes / 1e6, growth / 1e6, cpu, seconds


def announced(peer: Peer, connections: int) -> float:
    """Return the bytes of anonymous memory for each of `connections` that announce 100 MB and send 10 bytes."""
    host, _, port = peer.bootstrap.rpartition(":")
    with contextlib.ExitStack() as stack:
        before = procstat.memory_bytes(peer.pid, "RssAnon")
        for _ in range(connections):
            stranger = stack.enter_context(socket.create_connection((host, int(port)), 30))
            stranger.sendall(struct.pack(">i", REQUEST_BYTES_MAX) + bytes(10))
        time.sleep(SETTLE_S)
        return (procstat.memory_bytes(peer.pid, "RssAnon") - before) / connections


def compare_announced(options: argparse.Namespace) -> None:
    rows = []
    with peers.started(options) as running:
        for peer in running:
            create_topic(peer.bootstrap, TOPIC, PARTITIONS)
            count = min(options.connections, KAFKA_ANNOUNCED_MAX) if "Kafka" in peer.name else options.connections
            rows.append((peer.name, count, announced(peer, count) / 1e3))
    peers.table("connections that announce 100 MB and send 10 bytes", ["broker", "connections", "RssAnon for each, kB"], rows)


def burst(peer: Peer, connections: int) -> tuple[object, ...]:
    outcome, before_mb, peak_mb, *_ = measure(peer, connections, BURST_S)
    time.sleep(AFTER_S)
    after = lowest = procstat.memory_bytes(peer.pid, "RssAnon")
    fell = time.monotonic()
    while time.monotonic() - fell < QUIET_S:
        time.sleep(1)
        now = procstat.memory_bytes(peer.pid, "RssAnon")
        if now < lowest - 1_000_000:
            lowest, fell = now, time.monotonic()
    return outcome, before_mb, peak_mb, after / 1e6, lowest / 1e6


def compare_bursts(options: argparse.Namespace) -> None:
    with peers.started(options, heap="4G") as running:
        rows = [(peer.name, *burst(peer, options.connections)) for peer in running]
    title = f"{options.connections} requests of {PARTITIONS * BATCH_BYTES / 1e6:.1f} MB at once, RssAnon in MB"
    peers.table(title, ["broker", "requests", "before", "peak", "a second after", "in the end"], rows)


def _framed(message: object, version: int) -> bytes:
    return b"".join(encode_request(message, version, correlation_id=1, client_id=""))  # type: ignore[arg-type]  # no late parts


def long_requests(count: int) -> Iterator[tuple[str, bytes]]:
    """Yield requests whose largest array has `count` elements, or as many as 100 MB have place for."""
    for message, version, elements, element in (
        (MetadataRequest(), 9, "topics", MetadataRequestTopic(name="a")),
        (OffsetFetchRequest(group_id="g"), 7, "topics", OffsetFetchRequestTopic(name="a")),
        (DescribeConfigsRequest(), 4, "resources", DescribeConfigsResource(resource_name="a")),
        (CreateTopicsRequest(), 7, "topics", CreatableTopic(name="a")),
        (OffsetCommitRequest(group_id="g"), 8, "topics", OffsetCommitRequestTopic(name="a")),
        (FetchRequest(), 12, "topics", FetchTopic(topic="a")),
    ):
        setattr(message, elements, [element])
        size = len(_framed(message, version))
        setattr(message, elements, [element] * 2)
        each = len(_framed(message, version)) - size
        setattr(message, elements, [element] * min(count, (REQUEST_BYTES_MAX - size - 8) // each))
        yield type(message).__name__, _framed(message, version)


def long_request(peer: Peer, request: bytes) -> tuple[str, float, float]:
    """Return what came of a request, the growth of RssAnon in MB at its peak, and the seconds."""
    host, _, port = peer.bootstrap.rpartition(":")
    began = time.monotonic()
    with socket.create_connection((host, int(port)), TIMEOUT_S) as client, procstat.PeakSampler(peer.pid) as sampler:
        try:
            client.sendall(request)
            outcome = "response" if client.recv(4) else "closed"
        except ConnectionError:
            outcome = "closed"
        except TimeoutError:
            outcome = "silent"
    return outcome, (sampler.peak_bytes - sampler.before_bytes) / 1e6, time.monotonic() - began


def compare_elements(options: argparse.Namespace) -> None:
    rows = []
    with peers.started(options, {"pybroker.request.elements.max": str(ELEMENTS)}) as running:
        for peer in running:
            for count in (ELEMENTS, REQUEST_BYTES_MAX):
                for name, request in long_requests(count):
                    rows.append((peer.name, name, len(request) / 1e6, *long_request(peer, request)))
                    peers.row(rows[-1])
    peers.table("requests with many elements", ["broker", "request", "MB", "outcome", "growth, MB", "seconds"], rows)


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--connections", type=int, default=200, help="connections, each with one request (default: %(default)s)")
    parser.add_argument("--announce", action="store_true", help="announce sizes and send nothing")
    parser.add_argument("--burst", action="store_true", help="send everything at once, and look at the memory afterwards")
    parser.add_argument("--elements", action="store_true", help="send requests with many elements")
    parser.add_argument("--trickle", type=float, default=10, help="seconds over which each request is sent")
    parser.add_argument("--no-pool", dest="pool", action="store_false", help="leave the bound out, to see what it is for")
    options = peers.parsed(parser)
    if options.announce:
        compare_announced(options)
        return
    if options.burst:
        compare_bursts(options)
        return
    if options.elements:
        compare_elements(options)
        return
    overrides = {"queued.max.request.bytes": str(POOL_BYTES)} if options.pool else {}
    rows = []
    with peers.started(options, overrides, heap="4G" if not options.pool else "1G") as running:
        for peer in running:
            rows.append((peer.name, *measure(peer, options.connections, options.trickle)))
            peers.row(rows[-1])
    peers.table(
        f"{options.connections} requests of {PARTITIONS * BATCH_BYTES / 1e6:.1f} MB,"
        f" bound {(POOL_BYTES + REQUEST_BYTES_MAX - 1) / 1e6 if options.pool else float('inf'):.0f} MB",
        ["broker", "requests", "RssAnon before, MB", "peak, MB", "growth, MB", "broker CPU-s", "seconds"],
        rows,
    )


if __name__ == "__main__":
    main()
