"""Measures latencies beside Apache Kafka: of produces, of fetches, and from a producer to a consumer, alone and beside loads.

    python -m benchmarks.latency [--rounds 5] [--seconds 3] [--rates 200,2000,10000] [--beside alone,pipeline,...] [--no-kafka]

Requests are sent at fixed times whatever the broker does, and count from the time when they are due (`open_loop.c`, compiled with
`cc`). Half of the rate are Produces of one record of 100 B, half Fetches of an old one, on 10 connections each; one consumer
always waits for the next record. In each round the brokers take turns; the figure is the median of the rounds, the maximum that
of all.
p99.9 stands where a cell has 20,000 samples in all rounds. `lateness` is how late the generator itself was: where it is near a
figure, the figure is the generator's.

The loads: `pipeline`, 256 Produces under way on one connection; `bulk`, 50 MB/s in lz4 batches of 200 kB; `compaction`, 5 MB/s
into a compacted topic; `bomb`, a million identical records in 150 B every 0.3 s.
"""

from __future__ import annotations

import argparse
import statistics

from benchmarks import latency_loads as loads
from benchmarks import open_loop, peers
from benchmarks.probe import Times, times
from testing.clients.stock import create_topic
from testing.wire import raw

TOPIC = "latency"
SETTLE_S = 1.5
P999_SAMPLES = 20_000
OVERRIDES = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.compaction.lag.ms": "0"}


def cell(rounds: list[list[float]]) -> tuple[object, ...]:
    """Return the medians of the rounds' percentiles, the maximum of all, and the number of samples."""
    each: list[Times] = [times(taken) for taken in rounds]
    count = sum(one.requests for one in each)
    p999 = statistics.median(one.p999_ms for one in each) if count >= P999_SAMPLES else "-"
    p50, p99 = (statistics.median(getattr(one, name) for one in each) for name in ("p50_ms", "p99_ms"))
    return p50, p99, p999, max(one.max_ms for one in each), count


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds, in which brokers take turns (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3, help="seconds of a round (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=10, help="seconds that warm each broker up (default: %(default)s)")
    parser.add_argument("--rates", default="200,2000,10000", help="requests in a second (default: %(default)s)")
    parser.add_argument("--beside", default=",".join(loads.LOADS), help="the loads (default: %(default)s)")
    options: argparse.Namespace = peers.parsed(parser)
    rows: list[tuple[object, ...]] = []
    with peers.started(options, OVERRIDES) as running, peers.folder(options) as folder:
        program = open_loop.build(folder)
        for peer in running:
            create_topic(peer.bootstrap, TOPIC, 1)
            with raw.Connection(peer.bootstrap) as connection:
                frame = open_loop.frames(TOPIC).produce
                connection.socket.sendall(frame)
                connection.receive(1)
            open_loop.run(program, peer, TOPIC, rate=4000, seconds=options.warm)
        for load in options.beside.split(","):
            for rate in map(int, options.rates.split(",")):
                found: dict[tuple[str, str], list[list[float]]] = {}
                for _ in range(options.rounds):
                    for peer in running:
                        with loads.running(load, peer.bootstrap, SETTLE_S):
                            taken = open_loop.run(program, peer, TOPIC, rate=rate, seconds=options.seconds)
                        for kind, seconds in taken.items():
                            found.setdefault((kind, peer.name), []).append(seconds)
                for kind in open_loop.KINDS:
                    for peer in running:
                        rows.append((load, rate, kind, peer.name, *cell(found[kind, peer.name])))
                        peers.row(rows[-1])
    header = ["beside", "requests/s", "what", "broker", "p50, ms", "p99, ms", "p99.9, ms", "max, ms", "samples"]
    peers.table("Time from when a request was due", header, rows)


if __name__ == "__main__":
    main()
