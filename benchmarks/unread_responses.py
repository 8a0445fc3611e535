"""Measures the memory that a consumer costs that sends a Fetch and never reads the response.

    python -m benchmarks.unread_responses [--consumers 200] [--records 60000] [--no-kafka]

Each consumer asks for 12 MB from 12 partitions: with Fetch v4, whose response is what is on the disk, and with Fetch v3, whose
response is converted. The figure is the broker's RssAnon per consumer, without what the kernel holds for the sockets. KIP-283
allows one chunk of 128 kB of a converted response.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from benchmarks import peers
from benchmarks.fetching import fill
from benchmarks.peers import Peer
from testing.clients.stock import create_topic
from testing.process import procstat
from testing.wire import raw

if TYPE_CHECKING:
    import argparse

TOPIC, PARTITIONS, SIZE = "unread", 12, 1000
WARM_UP_CONSUMERS, SETTLE_S = 5, 2


def measure(peer: Peer, version: int, consumers: int) -> float:
    """Return the bytes of anonymous memory for each of `consumers` consumers."""
    asks = [raw.Ask(topic=TOPIC, partition=p, bytes_max=1_000_000) for p in range(PARTITIONS)]
    body = raw.fetch_body(version, asks, bytes_max=50_000_000)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(raw.Connection(peer.bootstrap)) for _ in range(consumers)]
        before = procstat.memory_bytes(peer.pid, "RssAnon")
        for connection in connections:
            connection.send(raw.FETCH, version, body)
        time.sleep(SETTLE_S)
        return (procstat.memory_bytes(peer.pid, "RssAnon") - before) / consumers


def rows(options: argparse.Namespace) -> list[tuple[str, str, float]]:
    found = []
    for version in (3, 4):
        with peers.started(options) as running:  # new ones, because a broker uses the memory of the consumers before again
            for peer in running:
                create_topic(peer.bootstrap, TOPIC, PARTITIONS)
                fill(peer.bootstrap, TOPIC, partitions=PARTITIONS, records=options.records, size=SIZE)
                measure(peer, version, WARM_UP_CONSUMERS)
                found.append((peer.name, f"v{version}", measure(peer, version, options.consumers) / 1e3))
    return found


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--consumers", type=int, default=200, help="consumers that never read (default: %(default)s)")
    parser.add_argument("--records", type=int, default=60_000, help="records to write (default: %(default)s)")
    options = peers.parsed(parser)
    peers.table(f"{options.consumers} consumers that never read", ["broker", "Fetch", "RssAnon per consumer, kB"], rows(options))


if __name__ == "__main__":
    main()
