"""Measures what many partitions cost several brokers, and what a second broker gains.

    python -m benchmarks.cluster_size partitions [--partitions 10000]
    python -m benchmarks.cluster_size fetcher-memory [--followed 2000] [--batches 3]
    python -m benchmarks.cluster_size two [--megabytes 100] [--rounds 3]

`partitions` creates as many with three replicas each, and measures the time for it and for another start, and the memory and the
idle CPU of each process. `fetcher-memory` measures what a broker takes while it copies as many partitions from one leader, each
with as many batches of 200 kB, and the broker has nothing of them. `two` writes with acks=1 to four partitions without replicas,
which one of two brokers leads, or both.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import build, peers
from benchmarks.cluster import Cluster, batch_of, write
from testing.process import procstat
from testing.process.several import SeveralBrokers
from testing.waiting import until
from testing.wire import raw

if TYPE_CHECKING:
    from collections.abc import Sequence

MB: Final = 1_000_000
TOPIC_PARTITIONS: Final = 1_000
IDLE_S: Final = 30
SETTLE_S: Final = 15
TIMEOUT_S: Final = 300


def create(admin: AdminClient, topic: str, *, partitions: int, **how: object) -> None:
    """Create a topic, and wait until all its replicas are in sync."""
    new = NewTopic(topic, partitions, **how)
    admin.create_topics([new], request_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)
    until(partial(_is_in_sync, admin, topic, partitions), f"the replicas of {topic} are in sync", TIMEOUT_S)


def _is_in_sync(admin: AdminClient, topic: str, partitions: int) -> bool:
    found = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    return len(found) == partitions and all(len(one.isrs) == len(one.replicas) and one.leader > 0 for one in found.values())


def partitions(options: argparse.Namespace) -> None:
    """Measure creation, restart, memory and idle CPU of three brokers with many partitions."""
    with tempfile.TemporaryDirectory(dir=options.data) as folder, SeveralBrokers(Path(folder), 3) as ours:
        admin, began = AdminClient({"bootstrap.servers": ours.bootstrap}), time.monotonic()
        for number in range(options.partitions // TOPIC_PARTITIONS):
            create(admin, f"t-{number}", partitions=TOPIC_PARTITIONS, replication_factor=3)
        rows: list[tuple[object, ...]] = [("create, s", time.monotonic() - began)]
        del admin  # which would look for the brokers that stop
        before = _idle(ours)
        ours.stop()
        began = time.monotonic()
        ours.start()
        rows.append(("start again to READY, s", time.monotonic() - began))
        rows += [
            (f"{name}, {when}", *values)
            for when, found in (("new", before), ("restarted", _idle(ours)))
            for name, values in found
        ]
    title = f"{options.partitions} partitions x 3 replicas; of the parent and of the brokers 1 to 3"
    peers.table(title, ["", "parent", "broker 1", "broker 2", "broker 3"], [row + ("",) * (5 - len(row)) for row in rows])


def _idle(ours: SeveralBrokers) -> list[tuple[str, list[float]]]:
    """Return the memory of each process, and what it does while nothing is asked of it."""
    pids = [ours.parent.pid, *(ours.pids()[number] for number in (1, 2, 3))]
    time.sleep(SETTLE_S)
    before = [procstat.own_cpu_s(pid) for pid in pids]
    time.sleep(IDLE_S)
    idle = [100 * (procstat.own_cpu_s(pid) - was) / IDLE_S for pid, was in zip(pids, before, strict=True)]
    return [("memory, MB", [procstat.own_memory_bytes(pid) / MB for pid in pids]), ("idle CPU, % of a core", idle)]


def fetcher_memory(options: argparse.Namespace) -> None:
    """Measure what a follower takes while it copies many partitions, of which it has nothing."""
    count, batch = options.followed, batch_of(200)
    with tempfile.TemporaryDirectory(dir=options.data) as folder, SeveralBrokers(Path(folder), 2) as ours:
        admin = AdminClient({"bootstrap.servers": ours.bootstrap})
        create(admin, "t", partitions=count, replica_assignment=[[1, 2]] * count, config={"min.insync.replicas": "1"})
        follower = ours.pids()[2]
        ours.hold(2)
        with raw.Connection(ours.bootstrap.split(",")[0], TIMEOUT_S) as leader:
            for number in range(count * options.batches):
                found = raw.produce(leader, 7, "t", batch, acks=1, partition=number % count)
                if found.error:
                    raise RuntimeError(f"error {found.error} of partition {number % count}")
        base = procstat.memory_bytes(follower, "RssAnon")
        began, cpu_s = time.monotonic(), procstat.cpu_s(follower)
        with procstat.PeakSampler(follower) as sampler:
            ours.go_on(2)
            until(lambda: _has_copied(ours.data_dir, count * options.batches * len(batch)), "the follower has all", TIMEOUT_S)
        taken, gb = time.monotonic() - began, count * options.batches * 0.2e6 / 1e9
        cells = [("MB of records", 1000 * gb), ("base, MB", base / MB), ("peak above it, MB", (sampler.peak_bytes - base) / MB)]
        cells += [("s", taken), ("CPU-s/GB of the follower", (procstat.cpu_s(follower) - cpu_s) / gb)]
    peers.table(f"a follower copies {count} partitions; replica.fetch.response.max.bytes is 10 MB", ["", ""], cells)


def _has_copied(data_dir: Path, size: int) -> bool:
    """Return whether both brokers together have twice the topic's size."""
    return sum(path.stat().st_size for path in data_dir.glob("**/t-*/*.log")) >= 2 * size


def two(options: argparse.Namespace) -> None:
    """Measure plain produce to two brokers, beside the same to one of them."""
    with tempfile.TemporaryDirectory(dir=options.data) as folder, SeveralBrokers(Path(folder), 2) as ours:
        cluster = Cluster("two", ours.bootstrap, (ours.pids()[1], ours.pids()[2]))
        admin, rows = AdminClient({"bootstrap.servers": ours.bootstrap}), []
        for kilobytes in (16, 200):
            found: dict[str, list[tuple[float, ...]]] = {"one broker": [], "two brokers": []}
            for turn in range(options.rounds + 1):
                for name, leaders in (("one broker", (1, 1, 1, 1)), ("two brokers", (1, 2, 1, 2))):
                    topic = f"{name.replace(' ', '-')}-{kilobytes}-{turn}"
                    create(admin, topic, partitions=4, replica_assignment=[[one] for one in leaders])
                    figures = _plain(cluster, topic, leaders, kilobytes, options.megabytes * MB)
                    if turn:  # the first warms up
                        found[name].append(figures)
            rows += [
                (name, kilobytes, *(sorted(column)[len(column) // 2] for column in zip(*all_, strict=True)))
                for name, all_ in found.items()
            ]
    peers.table("plain produce, acks=1, 4 partitions of factor 1", ["", "kB", "MB/s", "CPU-s/GB"], rows)


def _plain(cluster: Cluster, topic: str, leaders: Sequence[int], kilobytes: int, total_bytes: int) -> tuple[float, float]:
    began = time.perf_counter()
    costs = write(cluster, topic, tuple((one,) for one in leaders), kilobytes, total_bytes, acks=1)
    return total_bytes / MB / (time.perf_counter() - began), sum(costs)


COMMANDS: Final[dict[str, Callable[[argparse.Namespace], None]]] = {
    "partitions": partitions,
    "fetcher-memory": fetcher_memory,
    "two": two,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(COMMANDS))
    parser.add_argument("--data", type=Path, help="where the brokers keep their data (default: a temporary folder)")
    parser.add_argument("--partitions", type=int, default=10_000, help="in thousands (default: %(default)s)")
    parser.add_argument("--followed", type=int, default=2_000, help="partitions of one fetcher (default: %(default)s)")
    parser.add_argument("--batches", type=int, default=3, help="batches of 200 kB in each of them (default: %(default)s)")
    parser.add_argument("--megabytes", type=int, default=100, help="MB of each cell of a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default: %(default)s)")
    options = parser.parse_args()
    build.announce()
    COMMANDS[options.what](options)


if __name__ == "__main__":
    main()
