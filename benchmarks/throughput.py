"""Measures broker CPU-seconds per GB in and out, with librdkafka as producer and consumer.

    python -m benchmarks.throughput [--records 1000000] [--size 1000] [--rounds 3] [--warm-rounds 2] [--no-kafka]
                                   [--before CHECKOUT] [--touch 4]

Each round writes the records evenly over 12 partitions of a fresh topic with confluent-kafka (acks=1, linger 5 ms, no
compression) and reads them back by assignment. The client is a process of its own off the broker's core. The brokers take turns
within a round, and before each turn `--touch` GB of free memory are used and given back (`benchmarks.touched_memory`). The first
rounds warm both up (Java compiles what runs often) and do not count; the figures are medians of the others. GB = 1e9 bytes of
values. MB/s depends on the client and the machine; the CPU is the broker's own.
"""

from __future__ import annotations

import multiprocessing
import random
import statistics
import time
from concurrent.futures import ProcessPoolExecutor

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from benchmarks import peers, touched_memory
from benchmarks.peers import Peer, pin_client
from testing.clients.stock import create_topic
from testing.process import procstat

PARTITIONS = 12
TIMEOUT_S = 300


def produce(bootstrap: str, topic: str, records: int, size: int) -> int:
    """Return the number of records that the broker acknowledged."""
    failed = 0

    def done(error: object, _: object) -> None:
        nonlocal failed
        failed += error is not None

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": 1,
            "linger.ms": 5,
            "queue.buffering.max.kbytes": 262_144,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
            "on_delivery": done,
        }
    )
    rng = random.Random(1)
    values = [bytes(rng.choices(range(65, 91), k=size)) for _ in range(64)]
    for number in range(records):
        while True:
            try:
                producer.produce(topic, values[number & 63], partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.01)
        if not number & 1023:
            producer.poll(0)
    return records - producer.flush(TIMEOUT_S) - failed


def consume(bootstrap: str, topic: str, records: int, _: int) -> int:
    """Return the number of records that came."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    count, deadline = 0, time.monotonic() + TIMEOUT_S
    while count < records and time.monotonic() < deadline:
        count += sum(message.error() is None for message in consumer.consume(10_000, 1.0))
    consumer.close()
    return count


def measure(peer: Peer, topic: str, records: int, size: int) -> list[float]:
    """Return CPU-s per GB and MB/s of writing, then the same of reading."""
    figures = []
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=pin_client) as pool:
        for work in (produce, consume):
            cpu_before, began = procstat.cpu_s(peer.pid), time.monotonic()
            count = pool.submit(work, peer.bootstrap, topic, records, size).result()
            seconds, cpu = time.monotonic() - began, procstat.cpu_s(peer.pid) - cpu_before
            if count != records:
                raise RuntimeError(f"{peer.name}: {work.__name__} managed {count} of {records} records")
            figures += [cpu / (records * size / 1e9), records * size / 1e6 / seconds]
    return figures


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="records of a round (default: %(default)s)")
    parser.add_argument("--size", type=int, default=1000, help="bytes of a value (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default: %(default)s)")
    parser.add_argument(
        "--warm-rounds", type=int, default=2, help="rounds before them that warm the brokers up (default: %(default)s)"
    )
    touched_memory.add_option(parser)
    peers.add_before(parser)
    options = peers.parsed(parser)
    with peers.started(options) as running:
        rounds: dict[str, list[list[float]]] = {peer.name: [] for peer in running}
        for number in range(options.warm_rounds + options.rounds):
            for peer in running:
                create_topic(peer.bootstrap, f"throughput-{number}", PARTITIONS)
                touched_memory.touch(options.touch)
                figures = measure(peer, f"throughput-{number}", options.records, options.size)
                peers.row((f"round {number}", peer.name, *figures))
                if number >= options.warm_rounds:
                    rounds[peer.name].append(figures)
    rows = [(name, *map(statistics.median, zip(*figures, strict=True))) for name, figures in rounds.items()]
    peers.table(
        f"{options.records} records of {options.size} B over {PARTITIONS} partitions",
        ["broker", "in: CPU-s/GB", "in: MB/s", "out: CPU-s/GB", "out: MB/s"],
        rows,
    )


if __name__ == "__main__":
    main()
