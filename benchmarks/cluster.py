"""Measures three brokers that replicate: what produce with acks=all costs all of them.

    python -m benchmarks.cluster produce [--megabytes 200] [--rounds 3] [--records 1000] [--beside "BOOTSTRAP PIDS"]

`produce` writes batches of 16 and 200 kB of records of 1 kB, first to one partition, then to 6 that are spread over the
brokers; factor 3, min ISR 2, acks=all, up to 4 requests under way on the connection of a partition. CPU-s are those of all
processes of a cluster, and GB are 1e9 bytes of values. Then single records follow each other. `--beside` names another cluster
that runs already, such as three nodes of Apache Kafka: its three addresses, and the process ids of its nodes 1 to 3, each set
joined by commas. The clusters take turns within a round.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import build, peers, probe
from testing.process import procstat
from testing.process.several import SeveralBrokers
from testing.samples import T0_MS, Sample
from testing.waiting import until
from testing.wire import raw
from testing.wire.batches import sample_batch

RECORD_BYTES: Final = 1000
BATCH_KILOBYTES: Final = (16, 200)
UNDER_WAY: Final = 4
TIMEOUT_S: Final = 60
ONE_LEADER: Final = ((1, 2, 3),)
SPREAD: Final = ((1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2), (2, 1, 3), (3, 2, 1))


class Cluster(NamedTuple):
    """A cluster that runs: `pids` are the processes of its brokers 1 to 3."""

    name: str
    bootstrap: str
    pids: tuple[int, ...]


def create(bootstrap: str, topic: str, assignment: tuple[tuple[int, ...], ...]) -> None:
    """Create a topic, and wait until all its replicas are in sync and each leader knows that it leads."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    replicas, config = [list(brokers) for brokers in assignment], {"min.insync.replicas": "2"}
    new = NewTopic(topic, len(replicas), replica_assignment=replicas, config=config)
    admin.create_topics([new])[topic].result(TIMEOUT_S)
    in_sync(admin, topic, len(assignment))
    addresses, record = bootstrap.split(","), batch_of(1)
    for number, brokers in enumerate(assignment):
        with raw.Connection(addresses[brokers[0] - 1]) as leader:
            until(partial(_accepts, leader, topic, record, number), f"broker {brokers[0]} leads", TIMEOUT_S)


def _accepts(leader: raw.Connection, topic: str, record: bytes, partition: int) -> bool:
    return raw.produce(leader, 7, topic, record, partition=partition).error == 0


def in_sync(admin: AdminClient, topic: str, partitions: int = 1) -> None:
    def holds() -> bool:
        found = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        return len(found) == partitions and all(len(one.isrs) == 3 and one.leader > 0 for one in found.values())

    until(holds, "all replicas are in sync", TIMEOUT_S)


def batch_of(count: int) -> bytes:
    return sample_batch([Sample(None, bytes([65 + number % 26]) * RECORD_BYTES, T0_MS) for number in range(count)], "none")


def write(
    cluster: Cluster, topic: str, assignment: tuple[tuple[int, ...], ...], kilobytes: int, total_bytes: int, acks: int = -1
) -> list[float]:
    """Write to all partitions, and return the CPU-s per GB of each broker."""
    addresses = cluster.bootstrap.split(",")
    connections = [raw.Connection(addresses[replicas[0] - 1]) for replicas in assignment]
    batch = batch_of(kilobytes)
    bodies = [raw.produce_body(7, topic, {number: batch}, acks=acks) for number in range(len(assignment))]
    turns = max(total_bytes // (kilobytes * RECORD_BYTES * len(assignment)), UNDER_WAY)
    before = [procstat.cpu_s(pid) for pid in cluster.pids]
    for turn in range(turns + UNDER_WAY):
        for number, (connection, body) in enumerate(zip(connections, bodies, strict=True)):
            if turn < turns:
                connection.send(raw.PRODUCE, 7, body)
            if turn >= UNDER_WAY:
                produced = raw.parse_produce(7, topic, connection.receive(turn - UNDER_WAY + 1), partition=number)
                if produced.error:
                    raise RuntimeError(f"{cluster.name}: error {produced.error} of partition {number}")
    written_gb = turns * kilobytes * RECORD_BYTES * len(assignment) / 1e9
    for connection in connections:
        connection.socket.close()
    return [(procstat.cpu_s(pid) - was) / written_gb for pid, was in zip(cluster.pids, before, strict=True)]


def one_by_one(cluster: Cluster, topic: str, records: int) -> list[float]:
    """Return the seconds of each request of one record."""
    taken, record = [], batch_of(1)
    with raw.Connection(cluster.bootstrap.split(",")[0]) as connection:
        for _ in range(records):
            began = time.perf_counter()
            produced = raw.produce(connection, 7, topic, record)
            taken.append(time.perf_counter() - began)
            if produced.error:
                raise RuntimeError(f"{cluster.name}: error {produced.error} of one record")
    return taken


def produce(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(dir=options.data) as folder, SeveralBrokers(Path(folder), 3) as ours:
        pids = ours.pids()
        clusters = [Cluster(peers.OURS, ours.bootstrap, (pids[1], pids[2], pids[3]))]
        if options.beside:
            bootstrap, beside = options.beside.split()
            clusters.append(Cluster("beside", bootstrap, tuple(map(int, beside.split(",")))))
        rows: dict[tuple[str, str, int], list[list[float]]] = {}
        run = f"cluster-{os.getpid()}"  # the other cluster may have the topics of an earlier run
        taken: dict[str, list[float]] = {cluster.name: [] for cluster in clusters}
        for number in range(options.rounds + 1):
            for (shape, assignment), kilobytes in itertools.product((("one", ONE_LEADER), ("six", SPREAD)), BATCH_KILOBYTES):
                for cluster in clusters:
                    topic = f"{run}-{number}-{shape}-{kilobytes}"
                    create(cluster.bootstrap, topic, assignment)
                    figures = write(cluster, topic, assignment, kilobytes, options.megabytes * 1_000_000)
                    peers.row((f"round {number}", cluster.name, shape, kilobytes, sum(figures), *figures))
                    if number:  # the first warms up
                        rows.setdefault((cluster.name, shape, kilobytes), []).append(figures)
            for cluster in clusters:
                seconds = one_by_one(cluster, f"{run}-{number}-one-16", options.records)
                taken[cluster.name] += seconds if number else []
    medians = [
        (*key, *map(statistics.median, zip(*((sum(one), *one) for one in found), strict=True))) for key, found in rows.items()
    ]
    header = ["cluster", "partitions", "kB", "CPU-s/GB", "broker 1", "broker 2", "broker 3"]
    peers.table("produce, acks=all, factor 3; broker 1 leads where there is one partition", header, medians)
    times = [(name, found.p50_ms, found.p99_ms) for name, found in ((name, probe.times(one)) for name, one in taken.items())]
    peers.table("one record at a time", ["cluster", "p50 ms", "p99 ms"], times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["produce"])
    parser.add_argument("--data", type=Path, help="where the brokers keep their data (default: a temporary folder)")
    parser.add_argument("--megabytes", type=int, default=200, help="MB of each cell of a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default: %(default)s)")
    parser.add_argument("--records", type=int, default=1000, help="single records of a round (default: %(default)s)")
    parser.add_argument("--beside", default="", help="another cluster that runs: its addresses and its process ids")
    options = parser.parse_args()
    build.announce()
    produce(options)


if __name__ == "__main__":
    main()
