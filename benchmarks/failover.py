"""Measures how long a cluster of three brokers misses a leader that was killed.

    python -m benchmarks.failover [--clusters brokers,nodes,kafka] [--kills 30]

`brokers` is `pybroker start --brokers 3`, `nodes` are three nodes of Kafka's files, whose controllers run etcd and die with the
broker, `kafka` the same files for Apache Kafka, in a JVM with options for short runs; the session lasts 3 s. The leader of one
partition with three replicas is killed by SIGKILL again and again, as soon as all replicas are in sync. Two clients wait for the
same kill: one asks every 5 ms for the leader and sends it a record with acks=all, the other is confluent-kafka with quick
retries. The clusters run one after the other.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from benchmarks import build, peers
from benchmarks.cluster import ONE_LEADER, TIMEOUT_S, batch_of, create, in_sync
from testing.process import kafka_peer
from testing.process.several import SeveralBrokers
from testing.process.three_nodes import ThreeNodes
from testing.wire import raw

PAUSE_S: Final = 0.005
KAFKA_COMMAND: Final = (sys.executable, "-m", "testing.process.kafka_peer", "start")

Kill = Callable[[int], object]


def leader_of(address: str, topic: str) -> int:
    """Return the leader of partition 0 as this broker knows it, -1 if there is none. Raises OSError."""
    with raw.Connection(address, 1) as connection:
        response = connection.call(raw.METADATA, 1, struct.pack(">i", 1) + raw.string(topic))
    # behind the topic: whether it is internal, the number of partitions, the first one's error, number and leader
    (leader,) = struct.unpack_from(">i", response, response.index(raw.string(topic)) + len(raw.string(topic)) + 11)
    return int(leader)


def acknowledged(bootstrap: str, topic: str, seconds: list[float]) -> None:
    """Add the seconds until a broker acknowledges a record, asking each for the leader in turn."""
    addresses, record, began = bootstrap.split(","), batch_of(1), time.monotonic()
    last: Exception | None = None
    for address in itertools.cycle(addresses):
        if time.monotonic() - began > TIMEOUT_S:
            raise RuntimeError("no broker acknowledges the record") from last
        try:
            leader = leader_of(address, topic)
            if leader > 0:
                with raw.Connection(addresses[leader - 1], TIMEOUT_S) as connection:
                    if not raw.produce(connection, 7, topic, record).error:
                        break
        except (OSError, ValueError, struct.error) as error:  # the broker has ended, or does not know the topic yet
            last = error
        time.sleep(PAUSE_S)
    seconds.append(time.monotonic() - began)


def measure(bootstrap: str, kill: Kill, revive: Kill, kills: int) -> tuple[list[float], list[float]]:
    """Return the seconds from each kill to the next acknowledged write, of the quick client and of the stock one."""
    quick: list[float] = []
    stock: list[float] = []
    create(bootstrap, "t", ONE_LEADER)
    quiet: dict[str, str | int] = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(quiet)
    settings: dict[str, str | int] = {"acks": "all", "linger.ms": 0, "retry.backoff.ms": 20, "reconnect.backoff.max.ms": 100}
    producer = Producer(quiet | settings)
    for _ in range(kills):
        in_sync(admin, "t")
        producer.produce("t", b"before")
        producer.flush(TIMEOUT_S)
        leader = admin.list_topics("t", timeout=TIMEOUT_S).topics["t"].partitions[0].leader
        watcher = threading.Thread(target=acknowledged, args=(bootstrap, "t", quick))
        began = time.monotonic()
        kill(leader)
        watcher.start()
        producer.produce("t", b"after")
        if producer.flush(TIMEOUT_S):
            raise RuntimeError("the record was not delivered")
        stock.append(time.monotonic() - began)
        watcher.join()
        peers.row((leader, 1000 * quick[-1], 1000 * stock[-1]))
        revive(leader)
    return quick, stock


def brokers(folder: Path, kills: int) -> tuple[list[float], list[float]]:
    with SeveralBrokers(folder, 3) as ours:
        return measure(ours.bootstrap, ours.kill, lambda _: None, kills)  # the parent starts it again


def nodes(folder: Path, kills: int, command: tuple[str, ...] | None = None) -> tuple[list[float], list[float]]:
    with ThreeNodes(folder, start_command=command) as started:
        return measure(started.bootstrap, lambda number: started[number].kill(), lambda number: started[number].start(), kills)


CLUSTERS: Final[dict[str, Callable[[Path, int], tuple[list[float], list[float]]]]] = {
    "brokers": brokers,
    "nodes": nodes,
    "kafka": partial(nodes, command=KAFKA_COMMAND),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", default=",".join(CLUSTERS), help="which to kill, joined by commas (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=30, help="leaders to kill in each (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="where the brokers keep their data (default: a temporary folder)")
    options = parser.parse_args()
    build.announce()
    if "kafka" in options.clusters:
        kafka_peer.require()
    rows = []
    for name in options.clusters.split(","):
        with tempfile.TemporaryDirectory(dir=options.data) as folder:
            found = CLUSTERS[name](Path(folder), options.kills)
        for client, taken in zip(("asks every 5 ms", "confluent-kafka"), found, strict=True):
            ordered = [1000 * one for one in sorted(taken)]
            rows.append((name, client, ordered[0], statistics.median(ordered), ordered[len(ordered) * 9 // 10], ordered[-1]))
    title = f"ms from SIGKILL of the leader to the next acknowledged write, {options.kills} kills"
    peers.table(title, ["cluster", "client", "min", "p50", "p90", "max"], rows)


if __name__ == "__main__":
    main()
