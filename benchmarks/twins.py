"""Measures what a C compiler is worth: broker CPU per small request and per GB, with the native parts and in pure Python.

    python -m benchmarks.twins [--rounds 3] [--seconds 2] [--warm 1] [--records 200000] [--only fetch]

Two brokers from this source tree run side by side, the second with `PYBROKER_PURE=1`. The requests are those of
`benchmarks.small_requests`, one at a time on one connection and on 50; the records are those of `benchmarks.throughput`. The
brokers take turns, so that a noisy neighbour meets both; the median of the rounds counts. Only the ratio holds on another
machine.
"""

from __future__ import annotations

import argparse
import os
import statistics

from benchmarks import load, peers, small_requests, throughput
from benchmarks.peers import Peer
from pybroker.native import SWITCH
from testing.clients.stock import create_topic

NATIVE, PURE = "native", "pure"
SHAPES = ((1, 1), (50, 1))  # connections, requests under way on each
SIZE = 1000


def small(running: list[Peer], options: argparse.Namespace) -> list[tuple[object, ...]]:
    """Return a row for each request: CPU-us, native and pure, and their ratio."""
    frames = {peer.name: small_requests.requests(peer.bootstrap) for peer in running}
    rows: list[tuple[object, ...]] = []
    for request in frames[NATIVE]:
        if options.only.lower() not in request.lower():
            continue
        for peer in running:
            load.run(peer, frames[peer.name][request], connections=1, depth=16, seconds=0, warm_s=options.warm)
        for shape in SHAPES:
            measured = small_requests.measure(
                running, {peer.name: frames[peer.name][request] for peer in running}, shape, options
            )
            native, pure = (one.cpu_us for one in measured)
            rows.append((f"{request}, {shape[0]} connections, us", native, pure, pure / native))
    return rows


def bulk(running: list[Peer], options: argparse.Namespace) -> list[tuple[object, ...]]:
    """Return a row for Produce and one for Fetch of full batches: CPU-s per GB, native and pure, and their ratio."""
    rounds: dict[str, list[list[float]]] = {peer.name: [] for peer in running}
    for number in range(options.rounds):
        for peer in running:
            topic = f"twins-{number}"
            create_topic(peer.bootstrap, topic, throughput.PARTITIONS)
            rounds[peer.name].append(throughput.measure(peer, topic, options.records, SIZE))
    (native_in, _, native_out, _), (pure_in, _, pure_out, _) = (
        [statistics.median(figures) for figures in zip(*rounds[name], strict=True)] for name in (NATIVE, PURE)
    )
    return [
        (f"Produce, batches of records of {SIZE} B, s/GB", native_in, pure_in, pure_in / native_in),
        (f"Fetch, batches of records of {SIZE} B, s/GB", native_out, pure_out, pure_out / native_out),
    ]


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.set_defaults(kafka=False)
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2, help="seconds of a round of requests (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=1, help="seconds that warm each broker up (default: %(default)s)")
    parser.add_argument("--records", type=int, default=200_000, help="0 leaves the batches out")
    parser.add_argument("--only", default="", help="take only the requests with this in their names")
    options = peers.parsed(parser)
    with peers.folder(options) as path:
        running = [
            Peer(name, path / name, environment={**os.environ, SWITCH: switch}) for name, switch in ((NATIVE, "0"), (PURE, "1"))
        ]
        try:
            for peer in running:
                peer.start()
            rows = small(running, options)
            if options.records:
                rows += bulk(running, options)
        finally:
            for peer in running:
                peer.close()
    peers.table("Broker CPU", ["", NATIVE, PURE, "ratio"], rows)


if __name__ == "__main__":
    main()
