"""Measures how long others wait, and the broker's memory, while many connections ask for a large response and never read it.

    python -m benchmarks.unread_groups [--before CHECKOUT] [--no-kafka]

Each connection sends one DescribeGroups of groups whose only member has sent 900 kB of metadata. Meanwhile a probe in another
process sends ApiVersions every 5 ms, and a reader asks for a group again and again and reads it. The figures: the longest time
that a probe waited from when it was due, the CPU time of the broker until it is quiet, the peak of its resident memory above what
it was before, what of that is left SETTLE_S later, and the longest time that the reader waited.
"""

from __future__ import annotations

import contextlib
import resource
import threading
import time
from typing import TYPE_CHECKING, Final

from benchmarks import peers
from benchmarks.peers import Peer, pin_client
from benchmarks.probe import Probe
from testing.process import procstat
from testing.wire import raw
from testing.wire import raw_groups as groups

if TYPE_CHECKING:
    import argparse

CASES: Final = ((300, 1), (2000, 1), (300, 10))
"""The number of connections, and of groups that each asks for."""
METADATA: Final = bytes(900_000)
SESSION_MS: Final = 300_000
INTERVAL_S: Final = 0.005
QUIET_S: Final = 0.5
SETTLE_S: Final = 5
TIMEOUT_S: Final = 120
HEADER: Final = ("broker", "connections", "groups", "others waited, ms", "CPU, ms", "peak, MiB", "left, MiB", "reader waited, ms")


def make_groups(peer: Peer, stack: contextlib.ExitStack, count: int) -> None:
    """Join a member with much metadata to each group; the members stay while `stack` is open."""
    groups.find_coordinator(peer.bootstrap)
    for number in range(count):
        connection = stack.enter_context(raw.Connection(peer.bootstrap))
        groups.join_alone(connection, f"large-{number}", session_ms=SESSION_MS, metadata=METADATA)


def describe(count: int) -> bytes:
    return groups.array(raw.string(f"large-{number}") for number in range(count))


class Reader(threading.Thread):
    """Asks for a group again and again and reads it, until `stop`; `waited_s` are the times."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(daemon=True)
        self.waited_s: list[float] = []
        self._address = peer.bootstrap
        self._is_over = threading.Event()

    def run(self) -> None:
        with raw.Connection(self._address, TIMEOUT_S) as connection:
            while not self._is_over.wait(INTERVAL_S):
                began = time.monotonic()
                response = groups.call(connection, groups.DESCRIBE_GROUPS, describe(1))
                assert len(response) > len(METADATA)
                self.waited_s.append(time.monotonic() - began)

    def stop(self) -> None:
        self._is_over.set()
        self.join()


def measure(peer: Peer, connections: int, count: int) -> tuple[float, ...]:
    frame = raw.request(groups.DESCRIBE_GROUPS, 0, describe(count))
    rss = procstat.memory_bytes(peer.pid)
    probed = {"probe": raw.request(raw.API_VERSIONS, 0, b"")}
    reader = Reader(peer)
    with (
        contextlib.ExitStack() as stack,
        procstat.PeakSampler(peer.pid, "VmRSS", 5) as memory,
        Probe(peer.bootstrap, probed, INTERVAL_S) as probe,
    ):
        asking = [stack.enter_context(raw.Connection(peer.bootstrap)) for _ in range(connections)]
        reader.start()
        time.sleep(QUIET_S)
        cpu_s, began = procstat.cpu_s(peer.pid), time.monotonic()
        for one in asking:
            one.socket.sendall(frame)
        time.sleep(SETTLE_S)
        cpu_s, ended = procstat.cpu_s(peer.pid) - cpu_s, time.monotonic()
        reader.stop()
        left = procstat.memory_bytes(peer.pid) - rss
    waited = max(probe.between("probe", began, ended))
    figures = waited * 1e3, cpu_s * 1e3, (memory.peak_bytes - rss) / 2**20, left / 2**20, max(reader.waited_s) * 1e3
    return tuple(map(float, figures))


def rows(options: argparse.Namespace) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for connections, count in CASES:
        with peers.started(options) as running:  # new ones, because a broker uses the memory of the case before again
            for peer in running:
                with contextlib.ExitStack() as stack:
                    make_groups(peer, stack, count)
                    found.append((peer.name, connections, count, *measure(peer, connections, count)))
                peers.row(found[-1])
    return found


def main() -> None:
    parser = peers.arguments(__doc__)
    peers.add_before(parser)
    options = peers.parsed(parser)
    pin_client()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 10_000)), hard))
    peers.table("Connections that never read the groups that they ask for", HEADER, rows(options))


if __name__ == "__main__":
    main()
