"""Fills a data directory with Apache Kafka 3.9.2 and keeps what the tests read: `kafka-3.9.2/` beside this file.

    python -m tests.spark.make_kafka_logs tests/spark/kafka-3.9.2

`expected.json` has what librdkafka's consumer got from that Kafka, by isolation level. This needs Java and, the first time,
Maven.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

START_MS = 1_700_000_000_000
TIMEOUT_S = 120
TOPICS: dict[str, dict[str, str]] = {
    "codecs": {},
    "transactions": {"segment.bytes": "1500", "index.interval.bytes": "100"},
    "undecided": {},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.bytes": "2000",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "600000",
    },
    "shortened": {"segment.bytes": "1500"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
}
PARTITIONS = {"codecs": 2}
KEPT = ("meta.properties", "replication-offset-checkpoint", "log-start-offset-checkpoint", "recovery-point-offset-checkpoint")


def fill(bootstrap: str, logs: Path) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics(
        [NewTopic(name, PARTITIONS.get(name, 1), 1, config=config) for name, config in TOPICS.items()]
    ).values():
        made.result(TIMEOUT_S)
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        with_codec = producer(bootstrap, **{"compression.type": codec, "enable.idempotence": codec == "zstd"})
        for i in range(12):
            key, value = (None if i == 3 else b"key-%d" % i), (None if i == 5 else b"%s-%d " % (codec.encode(), i) * (1 + 3 * i))
            with_codec.produce(
                "codecs", value, key, number % 2, timestamp=START_MS + i, headers=[("n", b"%d" % i), ("nothing", None)][: i % 3]
            )
        flush(with_codec)
    transactions(bootstrap)
    plain = producer(bootstrap)
    for i in range(200):
        plain.produce(
            "compacted", b"value %d" % i * 3, b"once-%d" % i if i % 9 == 0 else b"key-%d" % (i % 7), 0, timestamp=START_MS + i
        )
        flush(plain)
    for i in range(60):
        plain.produce("shortened", b"value %d" % i * 5, b"k", 0, timestamp=START_MS + i)
        plain.produce("stamped", b"value %d" % i, None, 0)
        flush(plain)
    next(iter(admin.delete_records([TopicPartition("shortened", 0, 25)]).values())).result(TIMEOUT_S)
    wait_until(lambda: size_of(logs / "compacted-0") < 10_000, "the cleaner has compacted")


def transactions(bootstrap: str) -> None:
    first, second = (producer(bootstrap, **{"transactional.id": name}) for name in ("first", "second"))
    plain = producer(bootstrap)
    for one in (first, second):
        one.init_transactions(TIMEOUT_S)
    for round_ in range(8):
        for one in (first, second):
            one.begin_transaction()
        for i in range(4):
            for name, one in (("first", first), ("second", second)):
                one.produce(
                    "transactions", b"%s %d.%d " % (name.encode(), round_, i) * 3, b"k", 0, timestamp=START_MS + 10 * round_ + i
                )
                one.flush(TIMEOUT_S)
        plain.produce("transactions", b"plain %d" % round_, None, 0, timestamp=START_MS + 10 * round_)
        flush(plain)
        (first.abort_transaction if round_ % 2 else first.commit_transaction)(TIMEOUT_S)
        (second.commit_transaction if round_ % 3 else second.abort_transaction)(TIMEOUT_S)
    for name, one in (("transactions", second), ("undecided", first)):
        one.begin_transaction()
        plain.produce(name, b"before", None, 0, timestamp=START_MS)
        flush(plain)
        one.produce(name, b"nobody decides", None, 0, timestamp=START_MS)
        one.flush(TIMEOUT_S)
        plain.produce(name, b"behind", None, 0, timestamp=START_MS)
        flush(plain)


def producer(bootstrap: str, **more: Any) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "transaction.timeout.ms": 900_000, **more})


def flush(one: Producer) -> None:
    if one.flush(TIMEOUT_S):
        raise RuntimeError("not everything was delivered")


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.log"))


def wait_until(holds: Any, what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited too long until {what}")
        time.sleep(0.2)


def consumed(bootstrap: str, isolation: str) -> list[list[Any]]:
    """Return topic, partition, offset, time, type of time, key, value and headers of every record that this consumer gets."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": isolation, "isolation.level": isolation, "enable.partition.eof": True}
    )
    partitions = [TopicPartition(name, i, OFFSET_BEGINNING) for name in TOPICS for i in range(PARTITIONS.get(name, 1))]
    consumer.assign(partitions)
    found, ended = [], 0
    while ended < len(partitions):
        message = consumer.poll(TIMEOUT_S)
        if message is None:
            raise RuntimeError("nothing came")
        if message.error():
            if message.error().name() != "_PARTITION_EOF":
                raise KafkaException(message.error())
            ended += 1
            continue
        kind, timestamp = message.timestamp()
        headers = [[key, text(value)] for key, value in message.headers() or []]
        row = [
            message.topic(),
            message.partition(),
            message.offset(),
            timestamp,
            kind - 1,
            text(message.key()),
            text(message.value()),
            headers,
        ]
        found.append(row)
    consumer.close()
    return sorted(found, key=lambda row: row[:3])


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def main() -> None:
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as work:
        overrides = [
            "log.cleaner.backoff.ms=200",
            "log.initial.task.delay.ms=100",
            "replica.high.watermark.checkpoint.interval.ms=500",
        ]
        command = [sys.executable, "-m", "testing.process.kafka_peer", "start", "--data-dir", work]
        for one in overrides:
            command += ["--override", one]
        broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert broker.stdout is not None
            bootstrap = broker.stdout.readline().split()[1]
            logs = Path(work) / "logs"
            fill(bootstrap, logs)
            expected = {isolation: consumed(bootstrap, isolation) for isolation in ("read_committed", "read_uncommitted")}
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.wait(TIMEOUT_S)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for name in KEPT:
            shutil.copy(logs / name, target / name)
        for name in TOPICS:
            for folder in logs.glob(f"{name}-*"):
                shutil.copytree(folder, target / folder.name, ignore=shutil.ignore_patterns("*.deleted"))
    (target / "expected.json").write_text(json.dumps(expected, separators=(",", ":")))
    print({level: len(rows) for level, rows in expected.items()})


if __name__ == "__main__":
    main()
