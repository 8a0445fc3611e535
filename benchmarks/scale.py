"""Measures brokers with many connections and with many partitions, beside Apache Kafka.

    python -m benchmarks.scale [connections] [partitions] [--idle 10000] [--active 1000] [--partitions 10000] [--seconds 4]
                               [--no-kafka] [--result FILE]

Latencies are those of `latency`: requests at fixed times, of which each counts from when it is due, half of them Produces of one
record and half Fetches of one.

`connections`: requests on 20 connections, first alone, then beside idle connections, of which each has had one response, and
then the same rates on `--active` connections. Memory is the growth of resident memory for each idle connection, without the
kernel's. The limit of open files is raised where the system allows it; otherwise there are as many idle connections as it has
room for.

`partitions`: topics of 1,000 partitions with a record in each; memory, CPU of the broker at rest, latencies of requests to
another topic. Then the broker stops and starts, and is killed and starts, until a partition of the last topic takes a record.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import socket
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from benchmarks import hostile_requests, open_loop, peers, result_file
from benchmarks.peers import Peer, pin_client
from benchmarks.probe import times
from benchmarks.result_file import ResultFile
from pybroker.broker import descriptors
from testing.clients.stock import create_topic
from testing.process import procstat
from testing.samples import T0_MS, Sample
from testing.waiting import LONG_WAIT_S, Deadline
from testing.wire import raw
from testing.wire.batches import sample_batch

TOPIC: Final = "scale"
MANY: Final = "many"
RATES: Final = (2000, 10_000)
FILES_MAX: Final = 65_536
CONNECTIONS_BESIDE: Final = 100
OF_A_TOPIC: Final = 1_000
SETTLE_S: Final = 2
POLL_S: Final = 0.02
VERSIONS: Final = raw.request(raw.API_VERSIONS, 0, b"")


class Bench:
    """The table that a run prints and writes."""

    def __init__(self, program: Path, options: argparse.Namespace, results: ResultFile) -> None:
        self._program, self._results, self.seconds = program, results, options.seconds
        self.rows: list[tuple[object, ...]] = []
        self.latencies: list[tuple[object, ...]] = []

    def note(self, peer: Peer, name: str, value: float, unit: str) -> None:
        self._results.add(what="figure", broker=peer.name, name=name, value=value, unit=unit)
        self.rows.append((name, peer.name, value, unit))
        peers.row(self.rows[-1])

    def latency(self, peer: Peer, beside: str, connections: int = open_loop.CONNECTIONS) -> None:
        for rate in RATES:
            taken = open_loop.run(self._program, peer, TOPIC, rate=rate, seconds=self.seconds, connections=connections)
            for kind in open_loop.KINDS:
                found = times(taken[kind])
                self._results.add(what="cell", broker=peer.name, beside=beside, cell=f"{rate}", kind=kind, **found._asdict())
                self.latencies.append((beside, rate, kind, peer.name, *found))
                peers.row(self.latencies[-1])

    def prepare(self, peer: Peer, warm_s: float) -> None:
        create_topic(peer.bootstrap, TOPIC, 1)
        produce(peer, TOPIC, [0])
        open_loop.run(self._program, peer, TOPIC, rate=4000, seconds=warm_s)

    def at_rest(self, peer: Peer, what: str) -> None:
        """Note the CPU that the broker takes at rest, in percent of a core."""
        time.sleep(SETTLE_S)
        began, before = time.monotonic(), procstat.cpu_s(peer.pid)
        time.sleep(self.seconds)
        spent = (procstat.cpu_s(peer.pid) - before) / (time.monotonic() - began)
        self.note(peer, f"CPU at rest, {what}", 100 * spent, "% of a core")

    def show(self) -> None:
        print(f"\n{result_file.machine()}")
        peers.table("Figures", ["what", "broker", "figure", "unit"], self.rows)
        header = ["beside", "requests/s", "what", "broker", "p50, ms", "p99, ms", "p99.9, ms", "max, ms", "samples"]
        peers.table("Time from when a request was due", header, self.latencies)


def produce(peer: Peer, topic: str, partitions: list[int]) -> list[int]:
    """Produce a record to each of the partitions, and return the error codes."""
    data = sample_batch([Sample(None, b"v" * 100, T0_MS)])
    with raw.Connection(peer.bootstrap, LONG_WAIT_S) as connection:
        connection.socket.sendall(hostile_requests.produce(topic, dict.fromkeys(partitions, data)))
        return hostile_requests.errors_of_produce(connection.receive(1))


# --- Connections ----------------------------------------------------------------------------------------------------------------


def allow_files(idle: int) -> int:
    """Let this process and the brokers open enough files; return how many of the idle connections they can have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = max(hard, FILES_MAX)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
    except ValueError:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        wanted = hard
    if (possible := descriptors.shares(wanted).connections - CONNECTIONS_BESIDE) < idle:
        print(f"{wanted} open files are allowed here (ulimit -Hn), which is enough for {possible} idle connections", flush=True)
    return min(idle, possible)


@contextmanager
def idle_connections(bootstrap: str, count: int) -> Iterator[None]:
    """Open connections, of which each has one response."""
    host, _, port = bootstrap.rpartition(":")
    with ExitStack() as stack:
        for _ in range(count):
            one = stack.enter_context(socket.create_connection((host, int(port)), LONG_WAIT_S))
            one.sendall(VERSIONS)
            one.recv(4096)
        yield


def connections(bench: Bench, peer: Peer, options: argparse.Namespace) -> None:
    bench.latency(peer, "alone, 20 connections")
    before = procstat.memory_bytes(peer.pid)
    began = time.monotonic()
    with idle_connections(peer.bootstrap, options.idle):
        bench.note(peer, f"opening {options.idle} connections, one after the other", time.monotonic() - began, "s")
        bench.note(peer, "memory of an idle connection", (procstat.memory_bytes(peer.pid) - before) / options.idle / 1e3, "kB")
        bench.at_rest(peer, f"{options.idle} idle connections")
        bench.latency(peer, f"{options.idle} idle connections")
    bench.latency(peer, f"{options.active} active connections", options.active // 2)


# --- Partitions -----------------------------------------------------------------------------------------------------------------


def partitions(bench: Bench, peer: Peer, options: argparse.Namespace) -> None:
    topics = [f"{MANY}-{number}" for number in range(options.partitions // OF_A_TOPIC)]
    bench.note(peer, "memory without partitions", procstat.memory_bytes(peer.pid) / 1e6, "MB")
    began, before = time.monotonic(), procstat.cpu_s(peer.pid)
    for topic in topics:
        create_topic(peer.bootstrap, topic, OF_A_TOPIC)
    count = f"{len(topics) * OF_A_TOPIC} partitions"
    bench.note(peer, f"creation of {count}", time.monotonic() - began, "s")
    bench.note(peer, f"creation of {count}, CPU", procstat.cpu_s(peer.pid) - before, "CPU-s")
    for topic in topics:
        if (errors := produce(peer, topic, list(range(OF_A_TOPIC)))) != [0]:
            raise RuntimeError(f"{peer.name} took no record for {topic}: {errors}")
    bench.note(peer, f"memory with {count}", procstat.memory_bytes(peer.pid) / 1e6, "MB")
    bench.at_rest(peer, count)
    bench.latency(peer, count)
    ends: tuple[tuple[str, Callable[[], None]], ...] = (
        ("stop", peer.close), ("kill", lambda: os.kill(peer.pid, signal.SIGKILL)),
    )  # fmt: skip
    for name, end in ends:
        began = time.monotonic()
        end()
        if name == "stop":
            bench.note(peer, f"stop with {count}", time.monotonic() - began, "s")
        peer.close()
        began = time.monotonic()
        peer.start()
        until_served(peer, topics[-1])
        bench.note(
            peer, f"start after a {name} with {count}, until the last partition takes a record", time.monotonic() - began, "s"
        )
        bench.note(peer, f"start after a {name} with {count}, CPU", procstat.cpu_s(peer.pid), "CPU-s")


def until_served(peer: Peer, topic: str) -> None:
    deadline = Deadline(f"{peer.name} takes a record for {topic}", LONG_WAIT_S)
    while produce(peer, topic, [OF_A_TOPIC - 1]) != [0]:
        deadline.check()
        time.sleep(POLL_S)


PARTS: Final = {"connections": connections, "partitions": partitions}


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("what", nargs="*", metavar="connections|partitions", help="default: both, with new brokers for each")
    result_file.add_argument(parser, "scale")
    parser.add_argument("--idle", type=int, default=10_000, help="idle connections (default: %(default)s)")
    parser.add_argument("--active", type=int, default=1_000, help="active connections (default: %(default)s)")
    parser.add_argument("--partitions", type=int, default=10_000, help="a multiple of 1,000 (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=4, help="seconds of a measurement (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=8, help="seconds that warm each broker up (default: %(default)s)")
    options: argparse.Namespace = peers.parsed(parser)
    if unknown := set(options.what) - PARTS.keys():
        parser.error(f"{', '.join(unknown)} cannot be measured; there are {', '.join(PARTS)}")
    options.idle = allow_files(options.idle)
    pin_client()
    with ResultFile(options) as results, peers.folder(options) as folder:
        bench = Bench(open_loop.build(folder), options, results)
        for what in options.what or PARTS:
            with peers.started(options) as running:
                for peer in running:
                    try:
                        bench.prepare(peer, options.warm)
                        PARTS[what](bench, peer, options)
                    except (OSError, RuntimeError, AssertionError, subprocess.SubprocessError, KafkaException) as error:
                        traceback.print_exc()
                        results.add(what="failure", broker=peer.name, name=what, error=repr(error))
                        bench.rows.append((what, peer.name, f"failed: {error!r}", ""))
        bench.show()


if __name__ == "__main__":
    main()
