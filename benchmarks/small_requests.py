"""Measures broker CPU per small request: ApiVersions, Metadata, a single record produced, a single record fetched.

    python -m benchmarks.small_requests [--rounds 3] [--seconds 2] [--warm 12] [--only fetch] [--no-kafka]

There are 1 and 50 connections, with one request at a time on each, and pipelined (64 under way on the one connection, 16 on
each of the 50). One load generator (`benchmarks.load`) sends the very same bytes to both brokers. Before the first figure of a
request both brokers get `--warm` seconds of it, pipelined, because Java compiles what runs often; before each other shape a
quarter of that. Then the brokers take turns, `--rounds` times `--seconds` each, so that a noisy neighbour meets both; the
median counts. The figure is the broker's CPU time over the number of responses; requests/s depends on the generator, too, and
is only there to show how busy the broker was.
"""

from __future__ import annotations

import argparse
import struct

from benchmarks import load, peers
from benchmarks.peers import Peer
from testing.clients.stock import create_topic
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire.batches import sample_batch

TOPIC = "small"
PARTITIONS = 12
SETTLE_S = 0.3  # of each round, for the connections to fill
SHAPES = ((1, 1), (1, 64), (50, 1), (50, 16))  # connections, requests under way on each


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
    running: list[Peer], frames: dict[str, bytes], shape: tuple[int, int], options: argparse.Namespace
) -> list[load.Load]:
    """Return the round with the median cost of each broker."""
    connections, depth = shape
    rounds: dict[str, list[load.Load]] = {peer.name: [] for peer in running}
    for _ in range(options.rounds):
        for peer in running:
            rounds[peer.name].append(
                load.run(peer, frames[peer.name], connections=connections, depth=depth, seconds=options.seconds, warm_s=SETTLE_S)
            )
    return [sorted(rounds[peer.name], key=lambda one: one.cpu_us)[options.rounds // 2] for peer in running]


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2, help="seconds of a round (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=12, help="seconds that warm each broker up (default: %(default)s)")
    parser.add_argument("--only", default="", help="take only the requests with this in their names")
    peers.add_before(parser)
    options = peers.parsed(parser)
    rows = []
    with peers.started(options) as running:
        frames = {peer.name: requests(peer.bootstrap) for peer in running}
        for request in frames[running[0].name]:
            if options.only.lower() not in request.lower():
                continue
            warm_s = options.warm
            for connections, depth in SHAPES:
                same = {peer.name: frames[peer.name][request] for peer in running}
                for peer in running:
                    load.run(peer, same[peer.name], connections=connections, depth=max(depth, 16), seconds=0, warm_s=warm_s)
                warm_s = options.warm / 4
                measured = measure(running, same, (connections, depth), options)
                cells = [cell for m in measured for cell in (m.cpu_us, m.requests / m.seconds)]
                ratio = [measured[0].cpu_us / measured[1].cpu_us] if len(measured) == 2 else []
                rows.append((request, connections, depth, *cells, *ratio))
                peers.row(rows[-1])
    columns = [f"{peer.name} {unit}" for peer in running for unit in ("CPU us", "1/s")]
    header = ["request", "connections", "under way on each", *columns, *(["ratio of CPU"] if len(running) == 2 else [])]
    peers.table("Broker CPU per request", header, rows)


if __name__ == "__main__":
    main()
