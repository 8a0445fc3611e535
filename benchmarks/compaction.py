"""Measures compaction: what a produce takes beside it, and how much it cleans for each CPU-second of the broker.

    python -m benchmarks.compaction [--megabytes 200] [--keys 20000] [--value-bytes 1000] [--warm 8] [--no-kafka]

A topic gets this many megabytes of records with random keys, and `min.compaction.lag.ms` holds the cleaner back. Then the lag
becomes 0. The first time, nothing else happens until the topic is clean: the size of what was cleaned, divided by the CPU
time of the broker above that of an idle second, is the rate. The second time, one connection sends one record of 100 bytes
after the other to another topic until the topic is clean; the same for `--warm` seconds before is what it takes without
compaction. Both brokers have one cleaner thread, no limit of bytes per second, and look for work every 100 ms.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from benchmarks import peers
from benchmarks.peers import KAFKA, Peer, pin_client
from testing.clients.stock import create_topic, wait
from testing.process import procstat
from testing.samples import T0_MS, Sample
from testing.waiting import LONG_WAIT_S, Deadline
from testing.wire import raw
from testing.wire.batches import sample_batch

TOPIC, BESIDE = "compacted", "beside"
HELD_BACK_MS = 10**12
OVERRIDES = {"log.cleaner.backoff.ms": "100", "log.cleaner.threads": "1", "log.segment.delete.delay.ms": "1000"}
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": str(HELD_BACK_MS),
}
POLL_S = 0.05
IDLE_S = 2


class Times(NamedTuple):
    """What produces took."""

    p50_ms: float
    p99_ms: float
    max_ms: float


def folder_of(peer: Peer) -> Path:
    data = peer.log.parent / "data"
    return data / "logs" if peer.name == KAFKA else data


def fill(peer: Peer, options: argparse.Namespace, seed: int) -> None:
    """Write the records; they end with a new segment, because the active one is not cleaned."""
    draw = random.Random(seed)
    producer = confluent_kafka.Producer({"bootstrap.servers": peer.bootstrap, "linger.ms": 20, "log_level": 2})
    value = draw.randbytes(options.value_bytes)
    for _ in range(options.megabytes * 1_000_000 // options.value_bytes):
        while True:
            try:
                producer.produce(TOPIC, value, b"key-%d" % draw.randrange(options.keys))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(LONG_WAIT_S) == 0


def hold_back(peer: Peer, lag_ms: int) -> None:
    entry = ConfigEntry("min.compaction.lag.ms", str(lag_ms), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        wait(future)


def dirty_bytes(peer: Peer) -> tuple[int, int]:
    """Return the size of the segments that are not active, and where the active one begins."""
    *closed, active = sorted((folder_of(peer) / f"{TOPIC}-0").glob("*.log"))
    return sum(path.stat().st_size for path in closed), int(active.stem)


def cleaned_up_to(peer: Peer) -> int:
    try:
        lines = (folder_of(peer) / "cleaner-offset-checkpoint").read_text().splitlines()
    except FileNotFoundError:
        return 0
    return next((int(line.split()[2]) for line in lines if line.startswith(f"{TOPIC} 0 ")), 0)


def until_clean(peer: Peer, end: int, work: Callable[[], None]) -> float:
    """Do `work` until the cleaner has come to `end`, and return the seconds that took."""
    deadline, began, looked = Deadline("a clean topic", 4 * LONG_WAIT_S), time.perf_counter(), 0.0
    while True:
        work()
        now = time.perf_counter()
        if now - looked > POLL_S:
            deadline.check()
            looked = now
            if cleaned_up_to(peer) >= end:
                return now - began


def times(taken: list[float]) -> Times:
    taken = sorted(taken)
    return Times(*(1000 * taken[min(len(taken) * part // 100, len(taken) - 1)] for part in (50, 99, 100)))


def measure(peer: Peer, options: argparse.Namespace) -> tuple[object, ...]:
    create_topic(peer.bootstrap, TOPIC, 1, CONFIGS)
    create_topic(peer.bootstrap, BESIDE, 1, {})
    fill(peer, options, seed=1)
    time.sleep(IDLE_S)
    idle_before = procstat.cpu_s(peer.pid)
    time.sleep(IDLE_S)
    idle = (procstat.cpu_s(peer.pid) - idle_before) / IDLE_S
    size, end = dirty_bytes(peer)
    before = procstat.cpu_s(peer.pid)
    hold_back(peer, 0)
    took_s = until_clean(peer, end, lambda: time.sleep(POLL_S))
    cpu_s = procstat.cpu_s(peer.pid) - before - idle * took_s
    hold_back(peer, HELD_BACK_MS)
    fill(peer, options, seed=2)

    record = sample_batch([Sample(None, b"v" * 100, T0_MS)])
    taken: list[float] = []
    with raw.Connection(peer.bootstrap) as connection:

        def produce() -> None:
            began = time.perf_counter()
            raw.produce(connection, 7, BESIDE, record)
            taken.append(time.perf_counter() - began)

        deadline = time.perf_counter() + options.warm
        while time.perf_counter() < deadline:
            produce()
        alone = times(taken[len(taken) // 2 :])
        taken.clear()
        _, end = dirty_bytes(peer)
        hold_back(peer, 0)
        beside_s = until_clean(peer, end, produce)
    beside = times(taken)
    return (
        peer.name, size / 1e6, size / 1e6 / max(cpu_s, 0.01), took_s, beside_s, alone.p50_ms, alone.p99_ms,
        beside.p50_ms, beside.p99_ms, beside.max_ms, len(taken),
    )  # fmt: skip


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--megabytes", type=int, default=200, help="what is written before each cleaning (default: %(default)s)")
    parser.add_argument("--keys", type=int, default=20_000, help="different keys (default: %(default)s)")
    parser.add_argument("--value-bytes", type=int, default=1000, help="size of a value (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=8, help="seconds of produces before (default: %(default)s)")
    options = peers.parsed(parser)
    pin_client()
    with peers.started(options, OVERRIDES) as running:
        rows = [measure(peer, options) for peer in running]
    header = [
        "broker", "MB cleaned", "MB per CPU-s", "took, s", "beside produces, s", "alone p50, ms", "alone p99, ms",
        "beside p50, ms", "beside p99, ms", "beside max, ms", "produces beside",
    ]  # fmt: skip
    peers.table("Compaction, and produces of one record beside it", header, rows)


if __name__ == "__main__":
    main()
