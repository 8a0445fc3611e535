"""Measures compaction beside Apache Kafka: what produces and fetches take meanwhile, MB per CPU-second of the broker, and memory.

    python -m benchmarks.compaction [--megabytes 80] [--small-megabytes 30] [--keys 20000] [--threads 1] [--alone 4] [--no-kafka]

For each codec and size of values, both brokers in turn: a topic gets this many megabytes of records with random keys, in batches
of 16 kB and segments of 4 MB. `min.compaction.lag.ms` holds the cleaner back. A probe produces one small record into the topic
every 5 ms and fetches its beginning every 5 ms, each on a connection of its own, and counts from the time when a request is due.
After `--alone` seconds the lag becomes 0, and the probe continues until all closed segments are clean
(`cleaner-offset-checkpoint`). The rate is the size of these segments on the disk, divided by the CPU time of the broker above
that of the same probe before. A first cleaning, which is not counted, warms both brokers. Both have `--threads` cleaner threads,
no limit of bytes per second, and look for work every 100 ms.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from benchmarks import peers
from benchmarks.peers import KAFKA, Peer, pin_client
from benchmarks.probe import Probe, Times, times
from testing.clients.stock import create_topic, delete_topic, wait
from testing.process import procstat
from testing.samples import T0_MS, Sample
from testing.waiting import LONG_WAIT_S, Deadline
from testing.wire import raw
from testing.wire.batches import sample_batch

HELD_BACK_MS = 10**12
OVERRIDES = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "1000"}
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": str(HELD_BACK_MS),
}
POLL_S = 0.05
SETTLE_S = 1.0
INTERVAL_S = 0.005
FETCH_BYTES = 4096
BATCH_BYTES = 16_384
WARM_MEGABYTES = 40
SMALL_BYTES, LARGE_BYTES = 50, 1000
CODECS = ("none", "lz4", "zstd", "gzip")
KINDS = ("produce", "fetch")
WORDS = [b"offset", b"segment", b"leader", b"epoch", b"batch", b"broker", b"record", b"replica", b"consumer", b"timestamp"]


class Case(NamedTuple):
    """The contents of a topic."""

    codec: str
    value_bytes: int

    @property
    def topic(self) -> str:
        return f"{self.codec}-{self.value_bytes}"


class Result(NamedTuple):
    """One cleaning; seconds of probes by their kind."""

    megabytes: float
    stayed: float
    cpu_s: float
    took_s: float
    peak_mb: float
    alone: dict[str, list[float]]
    beside: dict[str, list[float]]

    @property
    def rate(self) -> float:
        return self.megabytes / max(self.cpu_s, 0.01)


def folder_of(peer: Peer) -> Path:
    data = peer.log.parent / "data"
    return data / "logs" if peer.name == KAFKA else data


def values_of(size: int) -> list[bytes]:
    """Return values of which a codec takes half away: words and random bytes."""
    draw = random.Random(size)
    values = []
    for _ in range(500):
        words = b" ".join(draw.choices(WORDS, k=size // 8))[: size // 2]
        values.append(words + draw.randbytes(size - len(words)))
    return values


def fill(peer: Peer, case: Case, megabytes: int, options: argparse.Namespace) -> None:
    """Write the records."""
    draw, values = random.Random(1), values_of(case.value_bytes)
    settings = {
        "bootstrap.servers": peer.bootstrap, "linger.ms": 20, "log_level": 0, "compression.type": case.codec,
        "queue.buffering.max.messages": 1_000_000, "batch.size": BATCH_BYTES,
    }  # fmt: skip
    producer = confluent_kafka.Producer(settings)
    for number in range(megabytes * 1_000_000 // case.value_bytes):
        while True:
            try:
                producer.produce(case.topic, values[number % 500], b"key-%d" % draw.randrange(options.keys))
                break
            except BufferError:
                producer.poll(0.1)
        if number % 64 == 0:
            producer.poll(0)
    assert producer.flush(LONG_WAIT_S) == 0


def hold_back(peer: Peer, topic: str, lag_ms: int) -> None:
    entry = ConfigEntry("min.compaction.lag.ms", str(lag_ms), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        wait(future)


def closed_segments(peer: Peer, topic: str) -> tuple[int, int]:
    """Return the size of the segments that are not active, and where the active one begins."""
    *closed, active = sorted((folder_of(peer) / f"{topic}-0").glob("*.log"))
    return sum(path.stat().st_size for path in closed), int(active.stem)


def cleaned_up_to(peer: Peer, topic: str) -> int:
    try:
        lines = (folder_of(peer) / "cleaner-offset-checkpoint").read_text().splitlines()
    except FileNotFoundError:
        return 0
    return next((int(line.split()[2]) for line in lines if line.startswith(f"{topic} 0 ")), 0)


def until_clean(peer: Peer, topic: str, end: int) -> None:
    deadline = Deadline(f"{peer.name} has cleaned {topic}", LONG_WAIT_S)
    while cleaned_up_to(peer, topic) < end:
        deadline.check()
        time.sleep(POLL_S)


def frames(topic: str) -> dict[str, bytes]:
    """Return the two requests of the probe."""
    record = sample_batch([Sample(b"probe", b"v" * 100, T0_MS)])
    produce = raw.request(raw.PRODUCE, 7, raw.produce_body(7, topic, {0: record}, acks=1))
    fetch = raw.request(raw.FETCH, 7, raw.fetch_body(7, [raw.Ask(topic=topic, bytes_max=FETCH_BYTES)]))
    return dict(zip(KINDS, (produce, fetch), strict=True))


def prepare(peer: Peer, case: Case, megabytes: int, options: argparse.Namespace) -> tuple[int, int]:
    create_topic(peer.bootstrap, case.topic, 1, CONFIGS)
    fill(peer, case, megabytes, options)
    time.sleep(SETTLE_S)
    return closed_segments(peer, case.topic)


def warm(peer: Peer, options: argparse.Namespace) -> None:
    """Clean once without measuring."""
    case = Case("zstd", 10 * SMALL_BYTES)
    _, end = prepare(peer, case, WARM_MEGABYTES, options)
    hold_back(peer, case.topic, 0)
    until_clean(peer, case.topic, end)
    delete_topic(peer.bootstrap, case.topic)


def measure(peer: Peer, case: Case, options: argparse.Namespace) -> Result:
    megabytes = options.small_megabytes if case.value_bytes == SMALL_BYTES else options.megabytes
    size, end = prepare(peer, case, megabytes, options)
    with Probe(peer.bootstrap, frames(case.topic), INTERVAL_S) as probe, procstat.PeakSampler(peer.pid, "VmRSS", 20) as memory:
        began, cpu_began = time.monotonic(), procstat.cpu_s(peer.pid)
        time.sleep(options.alone)
        released, cpu_released = time.monotonic(), procstat.cpu_s(peer.pid)
        hold_back(peer, case.topic, 0)
        until_clean(peer, case.topic, end)
        ended, cpu_ended = time.monotonic(), procstat.cpu_s(peer.pid)
    idle = (cpu_released - cpu_began) / (released - began)
    stays, _ = closed_segments(peer, case.topic)
    delete_topic(peer.bootstrap, case.topic)
    return Result(
        size / 1e6,
        stays / size,
        cpu_ended - cpu_released - idle * (ended - released),
        ended - released,
        memory.peak_bytes / 1e6,
        {kind: probe.between(kind, began, released) for kind in KINDS},
        {kind: probe.between(kind, released, ended) for kind in KINDS},
    )


def rows_of_probes(name: str, results: list[Result]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for kind in KINDS:
        for when in ("alone", "beside"):
            found: Times = times([seconds for one in results for seconds in getattr(one, when)[kind]])
            rows.append((name, kind, when, *found))
    return rows


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--megabytes", type=int, default=80, help="records of 1 kB that are cleaned (default: %(default)s)")
    parser.add_argument("--small-megabytes", type=int, default=30, help="the same for small records (default: %(default)s)")
    parser.add_argument("--keys", type=int, default=20_000, help="different keys (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="log.cleaner.threads of both brokers (default: %(default)s)")
    parser.add_argument("--alone", type=float, default=4, help="seconds of the probe before each cleaning (default: %(default)s)")
    parser.add_argument("--codecs", default=",".join(CODECS), help="default: %(default)s")
    options = peers.parsed(parser)
    pin_client()
    cases = [Case(codec, size) for codec in options.codecs.split(",") for size in (LARGE_BYTES, SMALL_BYTES)]
    results: dict[str, list[Result]] = {}
    rows: list[tuple[object, ...]] = []
    with peers.started(options, OVERRIDES | {"log.cleaner.threads": str(options.threads)}) as running:
        rest = {peer.name: procstat.memory_bytes(peer.pid) / 1e6 for peer in running}
        for peer in running:
            warm(peer, options)
        for case in cases:
            for peer in running:
                one = measure(peer, case, options)
                results.setdefault(peer.name, []).append(one)
                produce, fetch = times(one.beside["produce"]), times(one.beside["fetch"])
                rows.append((
                    case.codec, case.value_bytes, peer.name, one.megabytes, 100 * one.stayed, one.rate, one.took_s,
                    produce.p50_ms, produce.p99_ms, fetch.p99_ms, one.peak_mb,
                ))  # fmt: skip
                peers.row(rows[-1])
    header = [
        "codec", "value, bytes", "broker", "MB cleaned", "stays, %", "MB per CPU-s", "took, s",
        "produce p50 beside, ms", "produce p99 beside, ms", "fetch p99 beside, ms", "peak RSS, MB",
    ]  # fmt: skip
    peers.table("Cleanings, and the probe beside each", header, rows)
    header = ["broker", "request", "compaction", "p50, ms", "p99, ms", "p99.9, ms", "max, ms", "requests"]
    peers.table(
        "The probe, all cleanings together", header, [row for name in results for row in rows_of_probes(name, results[name])]
    )
    peers.table("Memory at rest, before any cleaning", ["broker", "RSS, MB"], rest.items())


if __name__ == "__main__":
    main()
