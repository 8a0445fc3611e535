"""Measures the CPU of copying a topic from one broker to another: batches as they are, beside decompressed and compressed again.

    python -m benchmarks.spark_mirror [--records 1000000] [--codecs lz4,zstd] [--rounds 2]

A million records of 1 kB are written to four partitions of a broker, in a producer's batches of 256 kB before compression. Then
each way of copying them to another broker runs in a process of its own, to a new topic each time:

    verbatim          `pybroker spark mirror --local`: nothing is decompressed
    recompressed      the same, but the records of every batch are decompressed and compressed again on the way, as one block
    confluent-kafka   its consumer, and its producer with the same codec: C, record by record through Python

CPU is the copying process's own, user and system, without its start. GB are of values, before compression. The brokers have the
first core, the copying process has the others.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import peers
from pybroker.model import Offset, ProducerEpoch, ProducerId
from pybroker.records.batch import BatchView, increment_sequence
from pybroker.records.build import assemble_batch
from pybroker.records.compression import compress, decompress
from pybroker.spark.mirror import outgoing
from pybroker.spark.mirror.job import MirrorOptions, run
from pybroker.spark.wire.client import LATEST, WireClient

PARTITIONS = 4
START_MS = 1_700_000_000_000
TIMEOUT_S = 600


def fill(bootstrap: str, topic: str, records: int, size: int, codec: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(TIMEOUT_S)
    settings = {"compression.type": codec, "linger.ms": 100, "batch.size": 1 << 18, "queue.buffering.max.kbytes": 1 << 18}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    chance = random.Random(7)
    words = [b"%x" % chance.randrange(65536) for _ in range(4096)]
    text = b" ".join(chance.choices(words, k=8 << 20))  # lz4 leaves three quarters of it, zstd a half
    for i in range(records):
        at = chance.randrange(len(text) - size)
        while True:
            try:
                producer.produce(topic, text[at : at + size], b"key-%d" % (i % 1000), i % PARTITIONS, timestamp=START_MS + i)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(TIMEOUT_S):
        raise RuntimeError("not everything was delivered")


def verbatim(source: str, target: str, topic: str, name: str, codec: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = MirrorOptions(path=Path(folder) / "m", source=source, target=target, topics=(topic,), renamed={topic: name})
        run(None, options)


def recompressed(source: str, target: str, topic: str, name: str, codec: str) -> None:
    def as_new(self: outgoing.Planner, batch: BatchView) -> outgoing.Outgoing:
        data = assemble_batch(
            compress(batch.compression, decompress(batch.compression, batch.payload)),
            base_offset=Offset(0),
            last_offset_delta=batch.last_offset_delta,
            attributes=batch.attributes,
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
            producer_id=ProducerId(self.producer.producer_id),
            producer_epoch=ProducerEpoch(self.producer.epoch),
            base_sequence=increment_sequence(0, self.target),
            record_count=batch.record_count,
        )
        return self._sent(memoryview(data), batch.record_count, [(batch.base_offset, self.target)], is_verbatim=False)

    outgoing.Planner._as_it_is = as_new  # type: ignore[method-assign]
    verbatim(source, target, topic, name, codec)


def with_clients(source: str, target: str, topic: str, name: str, codec: str) -> None:
    with WireClient(source) as client:
        left = sum(client.list_offset(topic, number, timestamp=LATEST) for number in range(PARTITIONS))
    admin = AdminClient({"bootstrap.servers": target})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(TIMEOUT_S)
    consumer = Consumer({"bootstrap.servers": source, "group.id": "x", "enable.auto.commit": False})
    settings = {"compression.type": codec, "linger.ms": 100, "batch.size": 1 << 18, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": target, **settings})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    while left:
        for one in consumer.consume(10_000, 1.0):
            left -= 1
            arguments: dict[str, Any] = {"headers": one.headers()} if one.headers() else {}
            while True:
                try:
                    producer.produce(name, one.value(), one.key(), one.partition(), timestamp=one.timestamp()[1], **arguments)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    if producer.flush(TIMEOUT_S):
        raise RuntimeError("not everything was delivered")
    consumer.close()


WAYS: dict[str, Callable[[str, str, str, str, str], None]] = {
    "verbatim": verbatim,
    "recompressed": recompressed,
    "confluent-kafka": with_clients,
}


def child(way: str, source: str, target: str, topic: str, name: str, codec: str) -> None:
    """Copy in one way in this process, and print what it took."""
    peers.pin_client()
    before, began = time.process_time(), time.monotonic()
    WAYS[way](source, target, topic, name, codec)
    print(json.dumps([time.monotonic() - began, time.process_time() - before]))


def measure(way: str, source: str, target: str, topic: str, name: str, codec: str) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.spark_mirror", "--child", way, source, target, topic, name, codec]
    run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if run.returncode:
        raise RuntimeError(run.stderr)
    with WireClient(source) as one, WireClient(target) as other:
        for number in range(PARTITIONS):
            if one.list_offset(topic, number, timestamp=LATEST) != other.list_offset(name, number, timestamp=LATEST):
                raise RuntimeError(f"{way} did not copy everything")
    seconds, cpu_s = json.loads(run.stdout)
    return seconds, cpu_s


def stored_mb(bootstrap: str, topic: str) -> float:
    """Return the size of a topic's batches."""
    total = 0
    with WireClient(bootstrap) as client:
        for number in range(PARTITIONS):
            offset, end = 0, client.list_offset(topic, number, timestamp=LATEST)
            while offset < end:
                planner = outgoing.Planner(outgoing.Producer(ProducerId(0), ProducerEpoch(0)), Offset(offset), Offset(0), 1 << 30)
                for _ in planner.plan(client.fetch(topic, number, offset=Offset(offset))):
                    pass
                offset, total = planner.source, total + planner.counts.size
    return total / 1e6


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
        return
    parser = peers.arguments(__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="records to copy (default: %(default)s)")
    parser.add_argument("--size", type=int, default=1000, help="bytes of a value (default: %(default)s)")
    parser.add_argument(
        "--codecs", default="lz4,zstd", help="of none, gzip, snappy, lz4 and zstd, separated by commas (default: lz4,zstd)"
    )
    parser.add_argument("--rounds", type=int, default=2, help="rounds, of which the one with the least CPU counts (default: 2)")
    parser.set_defaults(kafka=False)
    options: argparse.Namespace = peers.parsed(parser)
    gigabytes, rows = options.records * options.size / 1e9, []
    with peers.started(options, {"log.retention.ms": "-1"}) as (source,), peers.started(options) as (target,):
        for codec in options.codecs.split(","):
            topic = f"records-{codec}"
            fill(source.bootstrap, topic, options.records, options.size, codec)
            stored = stored_mb(source.bootstrap, topic)
            for way in WAYS:
                found = [
                    measure(way, source.bootstrap, target.bootstrap, topic, f"{way}-{number}-{topic}", codec)
                    for number in range(options.rounds)
                ]
                seconds, cpu_s = min(found, key=lambda one: one[1])
                rate = gigabytes * 1000 / seconds
                rows.append(
                    [
                        codec,
                        f"{stored:.0f}",
                        way,
                        seconds,
                        f"{rate:.0f}",
                        cpu_s / gigabytes,
                        cpu_s / stored * 1000,
                    ]
                )
    header = [
        "codec",
        "MB in the log",
        "way",
        "seconds",
        "MB/s of values",
        "CPU-s per GB of values",
        "CPU-s per GB in the log",
    ]
    peers.table(f"{options.records} records of {options.size} bytes", header, rows)


if __name__ == "__main__":
    main()
