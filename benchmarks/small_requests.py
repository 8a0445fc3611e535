"""Measures broker CPU per small request: ApiVersions, Metadata, a single record produced, a single record fetched.

    python -m benchmarks.small_requests [--rounds 3] [--seconds 2] [--warm 12] [--only fetch] [--floor] [--no-kafka]

There are 1 and 50 connections, with one request at a time on each, and pipelined (64 under way on the one connection, 16 on
each of the 50). One load generator (`benchmarks.load`) sends the very same bytes to both brokers. Before the first figure of a
request both brokers get `--warm` seconds of it, pipelined, because Java compiles what runs often; before each other shape a
quarter of that. Then the brokers take turns, `--rounds` times `--seconds` each, so that a noisy neighbour meets both; the
median counts. The figure is the broker's CPU time over the number of responses; requests/s depends on the generator, too, and
is only there to show how busy the broker was.

With `--floor` the server of `benchmarks.echo` takes turns with the brokers, on their core and with the same bytes: for a
Produce the one that also writes each request to a file. Its responses are as large as those to a Produce.
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

from benchmarks import load, peers
from benchmarks.echo import ECHO, WRITING, EchoServer
from benchmarks.load import SETTLE_S, SHAPES, Server
from benchmarks.peers import KAFKA, OURS
from testing.clients.stock import create_topic
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire.batches import sample_batch

TOPIC = "small"
PARTITIONS = 12


def requests(bootstrap: str) -> dict[str, bytes]:
    """Return frames by what they ask for, and write the record that they will fetch."""
    record = sample_batch([Sample(None, b"v" * 100, T0_MS)])
    create_topic(bootstrap, TOPIC, PARTITIONS)
    create_topic(bootstrap, f"{TOPIC}-one")
    with raw.Connection(bootstrap) as connection:
        assert raw.produce(connection, 7, f"{TOPIC}-one", record).error == 0
    ask = raw.Ask(topic=f"{TOPIC}-one")
    return {
        "ApiVersions v0": raw.request(raw.API_VERSIONS, 0, b""),
        "Metadata v1, 12 partitions": raw.request(raw.METADATA, 1, struct.pack(">i", 1) + raw.string(TOPIC)),
        "Produce v7, 100 B, acks=1": raw.request(raw.PRODUCE, 7, raw.produce_body(7, TOPIC, {0: record}, acks=1)),
        "Fetch v11, 100 B": raw.request(raw.FETCH, 11, raw.fetch_body(11, [ask])),
    }


def measure(
    running: Sequence[Server],
    frames: dict[str, bytes],
    shape: tuple[int, int],
    options: argparse.Namespace,
    prepare: Callable[[], None] = lambda: None,
) -> list[load.Load]:
    """Return the round with the median cost of each server. `prepare` is called before each round."""
    connections, depth = shape
    rounds: dict[str, list[load.Load]] = {peer.name: [] for peer in running}
    for _ in range(options.rounds):
        for peer in running:
            prepare()
            rounds[peer.name].append(
                load.run(peer, frames[peer.name], connections=connections, depth=depth, seconds=options.seconds, warm_s=SETTLE_S)
            )
    return [sorted(rounds[peer.name], key=lambda one: one.cpu_us)[options.rounds // 2] for peer in running]


@contextmanager
def with_floor(running: Sequence[Server], request: str, frame: bytes, options: argparse.Namespace) -> Iterator[Sequence[Server]]:
    """Yield the servers that take turns: the brokers, and an echo of this request if the options ask for it."""
    if not options.floor:
        yield running
        return
    with closing(EchoServer(WRITING if request.startswith("Produce") else ECHO, len(frame))) as echo:
        yield [*running, echo]


def ratios(servers: Sequence[Server], measured: Sequence[load.Load]) -> dict[str, float]:
    """Return the CPU of the others beside Kafka's, by the titles of the columns."""
    cpu_us = {server.name: one.cpu_us for server, one in zip(servers, measured, strict=True)}
    others = ((OURS, "ratio of CPU"), (EchoServer.name, "echo / Kafka"))
    return {title: cpu_us[name] / cpu_us[KAFKA] for name, title in others if name in cpu_us and KAFKA in cpu_us}


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2, help="seconds of a round (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=12, help="seconds that warm each broker up (default: %(default)s)")
    parser.add_argument("--only", default="", help="take only the requests with this in their names")
    peers.add_before(parser)
    parser.add_argument("--floor", action="store_true", help="measure the server of benchmarks.echo in the same rounds")
    options = peers.parsed(parser)
    rows: list[tuple[object, ...]] = []
    titles: list[str] = []
    with peers.started(options) as running:
        frames = {peer.name: requests(peer.bootstrap) for peer in running}
        for request in frames[running[0].name]:
            if options.only.lower() not in request.lower():
                continue
            warm_s = options.warm
            same = {peer.name: frames[peer.name][request] for peer in running}
            same[EchoServer.name] = same[running[0].name]
            with with_floor(running, request, same[EchoServer.name], options) as servers:
                for connections, depth in SHAPES:
                    for peer in running:
                        load.run(peer, same[peer.name], connections=connections, depth=max(depth, 16), seconds=0, warm_s=warm_s)
                    warm_s = options.warm / 4
                    measured = measure(servers, same, (connections, depth), options)
                    cells = [cell for m in measured for cell in (m.cpu_us, m.requests / m.seconds)]
                    compared = ratios(servers, measured)
                    rows.append((request, connections, depth, *cells, *compared.values()))
                    peers.row(rows[-1])
                columns = [f"{server.name} {unit}" for server in servers for unit in ("CPU us", "1/s")]
                titles = ["request", "connections", "under way on each", *columns, *compared]
    peers.table("Broker CPU per request", titles, rows)


if __name__ == "__main__":
    main()
