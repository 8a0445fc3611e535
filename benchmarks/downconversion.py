"""Measures KIP-283, reading new batches with an old Fetch: its throughput by chunk size, and its memory.

    python -m benchmarks.downconversion [throughput|memory] [--records 1000000] [--no-kafka]

Throughput: a client reads 12 partitions of 1 kB records, in batches of 16 kB, whole with Fetch v2 (magic 1), in several passes,
of which the first warms the broker up. It does so once for each chunk size, once with conversion in the handler ("eager", no
chunks), and once without conversion (Fetch v4) for comparison. Apache Kafka has one chunk size, 128 kB. The paper's figures are
for 10M records on its own machine: only the shape can be compared.

Memory: this is the paper's acceptance test. 250 partitions have 1M records of 1 kB, and a client sends ONE Fetch v3 of 250 MB,
with 1 MB from each partition. Our broker runs under a limit of its data segment (RLIMIT_DATA, as `ulimit -d`), Apache Kafka
under a heap of the same size. With the eager switch our broker builds the response in memory first, which the limit must
forbid; a lazy conversion must be able to send it. The benchmark samples the peak of anonymous memory from /proc/PID/status
(RssAnon).

`benchmarks.unread_responses` measures what a consumer costs that never reads its response.
"""

from __future__ import annotations

import argparse
import multiprocessing
import struct
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor

from benchmarks import peers
from benchmarks.fetching import Reading, fill, next_offset, read_all
from benchmarks.peers import KAFKA, OURS, Peer, pin_client
from testing.clients.stock import create_topic
from testing.process import kafka_peer, procstat
from testing.wire import raw

CHUNK_KEY, EAGER_KEY = "pybroker.down.conversion.chunk.bytes", "pybroker.down.conversion.eager"
CHUNKS_KB = (16, 32, 64, 128, 256, 512, 1024)
PAPER_MB_S = {16: 136.95, 32: 167.04, 64: 181.92, 128: 197.72, 256: 181.25, 512: 180.41, 1024: 176.64, 0: 178.9}
TOPIC, PARTITIONS, SIZE = "down", 12, 1000
MEMORY_PARTITIONS, MEMORY_LIMIT_MB, RESPONSE_BYTES = 250, 200, 250_000_000


def passes(peer: Peer, version: int, records: int, count: int) -> Reading:
    """Return the reading with the median CPU among `count` passes after the first."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=pin_client) as pool:
        arguments = {"version": version, "partitions": PARTITIONS, "records": records, "partition_bytes": 1 << 20}
        readings = [pool.submit(read_all, peer.bootstrap, peer.pid, TOPIC, **arguments).result() for _ in range(count + 1)]
    expected = {2} if version >= 4 else {0 if version < 2 else 1}
    assert readings[0].magics == expected, readings[0].magics
    return sorted(readings[1:], key=lambda reading: reading.cpu_s)[count // 2]


def throughput(options: argparse.Namespace) -> None:
    rows = []
    records, count = options.records, options.passes
    with peers.folder(options) as path:
        for name in peers.names(options):
            peer = Peer(name, path / name.split()[-1])
            variants: list[tuple[str, int, Mapping[str, str], float | str]] = [("not converted (v4)", 4, {}, "")]
            if name == OURS:
                variants += [(f"{kb} kB", 2, {CHUNK_KEY: str(kb << 10)}, PAPER_MB_S[kb]) for kb in CHUNKS_KB]
                variants.append(("eager", 2, {EAGER_KEY: "true"}, PAPER_MB_S[0]))
            else:
                variants.append(("128 kB", 2, {}, PAPER_MB_S[128]))
            is_filled = False
            for label, version, overrides, paper in variants:
                peer.start(overrides)
                try:
                    if not is_filled:
                        create_topic(peer.bootstrap, TOPIC, PARTITIONS)
                        fill(peer.bootstrap, TOPIC, partitions=PARTITIONS, records=records, size=SIZE)
                        is_filled = True
                    reading = passes(peer, version, records, count)
                finally:
                    peer.close()
                gb = records * SIZE / 1e9
                rows.append((name, label, reading.cpu_s / gb, gb * 1e3 / reading.seconds, reading.wire_bytes / 1e6, paper))
                peers.row(rows[-1])
    peers.table(
        f"Fetch v2 of {records} records of {SIZE} B",
        ["broker", "chunk", "broker CPU-s/GB", "MB/s", "MB on the wire", "MB/s in the paper"],
        rows,
    )


def memory(options: argparse.Namespace) -> None:
    rows = []
    limit = MEMORY_LIMIT_MB << 20
    variants = [(OURS, "lazy", {}), (OURS, "eager", {EAGER_KEY: "true"}), (KAFKA, "lazy", {})]
    with peers.folder(options) as path:
        filled: set[str] = set()
        for name, label, extra in variants:
            if name not in peers.names(options):
                continue
            peer = Peer(name, path / name.split()[-1], heap=f"{MEMORY_LIMIT_MB}m", data_limit_bytes=limit)
            peer.start({"fetch.max.bytes": "300000000", **extra})
            try:
                if name not in filled:
                    create_topic(peer.bootstrap, TOPIC, MEMORY_PARTITIONS)
                    fill(
                        peer.bootstrap,
                        TOPIC,
                        partitions=MEMORY_PARTITIONS,
                        records=options.records,
                        size=SIZE,
                        batch_bytes=options.batch_bytes,
                    )
                    filled.add(name)
                rows.append((name, label, *one_large_fetch(peer)))
                peers.row(rows[-1])
            finally:
                peer.close()
    peers.table(
        f"One Fetch v3 of {RESPONSE_BYTES / 1e6:.0f} MB from {MEMORY_PARTITIONS} partitions, {MEMORY_LIMIT_MB} MiB of memory",
        ["broker", "conversion", "response", "records", "RssAnon before, MB", "peak, MB", "broker CPU-s", "broker afterwards"],
        rows,
    )


def one_large_fetch(peer: Peer) -> tuple[str, int, float, float, float, str]:
    """Send the Fetch; return the outcome, the records, anonymous memory before and at its peak, CPU, and the broker's state."""
    asks = [raw.Ask(topic=TOPIC, partition=p, bytes_max=1_000_000) for p in range(MEMORY_PARTITIONS)]
    records, cpu_before = 0, procstat.cpu_s(peer.pid)
    with procstat.PeakSampler(peer.pid) as sampler:
        try:
            with raw.Connection(peer.bootstrap, timeout_s=300) as connection:
                response = raw.fetch(connection, 3, asks, bytes_max=RESPONSE_BYTES)
            records = sum(next_offset(fetched.records, set()) for fetched in response.partitions)
            errors = {fetched.error for fetched in response.partitions} - {0}
            outcome = f"{response.size / 1e6:.0f} MB" + (f", errors {errors}" if errors else "")
        except (OSError, struct.error) as error:
            outcome = f"none: {error}"
    cpu = procstat.cpu_s(peer.pid) - cpu_before
    host, _, port = peer.bootstrap.rpartition(":")
    afterwards = (
        "responds"
        if peer.is_alive and kafka_peer.serves_metadata(host, int(port), 30)
        else "dead"
        if not peer.is_alive
        else "silent"
    )
    return outcome, records, sampler.before_bytes / 1e6, sampler.peak_bytes / 1e6, cpu, afterwards


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("part", nargs="?", choices=["throughput", "memory"], help="the part to run (default: both)")
    parser.add_argument("--records", type=int, default=1_000_000, help="records to write and read (default: %(default)s)")
    parser.add_argument("--passes", type=int, default=3, help="passes over the topic that are measured (default: %(default)s)")
    parser.add_argument(
        "--batch-bytes",
        type=int,
        default=16_384,
        help="size of a batch of the memory test (default: %(default)s); 900000 is the hardest",
    )
    options = peers.parsed(parser)
    for name, part in (("throughput", throughput), ("memory", memory)):
        if options.part in (None, name):
            part(options)


if __name__ == "__main__":
    main()
