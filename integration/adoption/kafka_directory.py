"""A data directory that Apache Kafka itself has filled, with every codec, compaction, transactions, groups and settings."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from testing.process.broker import BrokerProcess
from testing.waiting import until

TIMEOUT_S = 60
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = {
    "orders": {"retention.ms": "-1", "segment.bytes": "1048576"},
    "users": {
        "cleanup.policy": "compact",
        "segment.ms": "1",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "1000",
    },
    "tx": {},
    "gone": {},
}
OVERRIDES = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "2",
    "log.cleaner.backoff.ms": "300",
    "log.initial.task.delay.ms": "300",
}
Read = dict[tuple[int, int], tuple[bytes | None, bytes | None]]
"""Key and value by partition and offset."""


class KafkaDirectory(BrokerProcess):
    """Apache Kafka on two log directories below `folder`."""

    def __init__(self, folder: Path, release: str, overrides: Mapping[str, str] | None = None) -> None:
        self.folder, self.release = folder, release
        self.log_dirs = [folder / "logs", folder / "more"]
        all_overrides = {**OVERRIDES, **(overrides or {}), "log.dirs": ",".join(map(str, self.log_dirs))}
        start = [sys.executable, "-m", "testing.process.kafka_peer", "start", "--release", release, "--heap", "512M"]
        super().__init__(folder, all_overrides, start_command=start)
        self.data_dir = folder


@contextlib.contextmanager
def kafka_directory(folder: Path, release: str, overrides: Mapping[str, str] | None = None) -> Iterator[KafkaDirectory]:
    """Yield a started Kafka; it ends with the block."""
    kafka = KafkaDirectory(folder, release, overrides)
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.close()


def fill(kafka: KafkaDirectory, idempotent: Producer) -> None:
    """Write to every topic, commit offsets of groups, and change a setting."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    new = [NewTopic(name, 2, 1, config=config) for name, config in TOPICS.items()]
    for future in admin.create_topics(new).values():
        future.result(TIMEOUT_S)
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": codec, "linger.ms": 20})
        for number in range(100):
            producer.produce("orders", f"{codec}-{number}".encode(), key=f"k{number}".encode(), partition=number % 2)
            producer.produce("users", f"{codec}-{number}".encode() * 20, key=f"u{number % 10}".encode(), partition=number % 2)
        assert producer.flush(TIMEOUT_S) == 0
    idempotent.produce("orders", b"first", partition=0)
    idempotent.produce("gone", b"first", partition=0)
    assert idempotent.flush(TIMEOUT_S) == 0
    transaction(kafka.bootstrap, "committed", Producer.commit_transaction)
    transaction(kafka.bootstrap, "aborted", Producer.abort_transaction)
    consume_and_commit(kafka.bootstrap, "classic", "orders", 300, protocol="classic")
    if kafka.release.startswith("4"):
        consume_and_commit(kafka.bootstrap, "modern", "tx", 10, protocol="consumer")
    entry = ConfigEntry("retention.ms", "123456789", incremental_operation=AlterConfigOpType.SET)
    for future in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, "tx", incremental_configs=[entry])]
    ).values():
        future.result(TIMEOUT_S)
    for future in admin.delete_topics(["gone"]).values():
        future.result(TIMEOUT_S)
    until(lambda: is_compacted(kafka), "the cleaner has worked on users", TIMEOUT_S)


def is_compacted(kafka: KafkaDirectory) -> bool:
    texts = [path.read_text() for folder in kafka.log_dirs for path in folder.glob("cleaner-offset-checkpoint")]
    return any("users" in text for text in texts)


def transaction(bootstrap: str, name: str, end: Callable[[Producer, float], None] | None, topic: str = "tx") -> Producer:
    """Produce in a transaction, and commit an offset in it: of the group `by-transaction` if it has an end.

    Returns when the markers of that end are in the log. Kafka writes them after its response, and a producer with another
    transactional id could write before them.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": 600_000})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for number in range(10):
        producer.produce(topic, f"{name}-{number}".encode(), partition=number % 2)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "waiting" if end is None else "by-transaction"})
    offset = 7 if end is Producer.commit_transaction else 9
    producer.send_offsets_to_transaction([TopicPartition("orders", 0, offset)], consumer.consumer_group_metadata(), TIMEOUT_S)
    producer.flush(TIMEOUT_S)
    if end is not None:
        end(producer, TIMEOUT_S)
        until(lambda: is_stable(bootstrap, topic), f"the markers of transaction {name} are in {topic}", TIMEOUT_S)
    consumer.close()
    return producer


def is_stable(bootstrap: str, topic: str) -> bool:
    """Return whether no transaction is open in either partition of a topic, which has no other producers."""
    stable, end = ([high for _, high in limits(bootstrap, topic, one)] for one in ("read_committed", "read_uncommitted"))
    return stable == end


def limits(bootstrap: str, topic: str, isolation: str) -> list[tuple[int, int]]:
    """Return where each of both partitions begins and ends for a reader."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "limits", "isolation.level": isolation})
    found = [consumer.get_watermark_offsets(TopicPartition(topic, number), TIMEOUT_S) for number in range(2)]
    consumer.close()
    return found


def consume_and_commit(bootstrap: str, group: str, topic: str, count: int, *, protocol: str) -> None:
    options = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "group.protocol": protocol}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **options})
    consumer.subscribe([topic])
    left = count
    while left:
        batch = consumer.consume(left, TIMEOUT_S)
        assert batch, f"{left} records of {topic} did not come"
        left -= len(batch)
    consumer.commit(asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, number) for number in range(2)], TIMEOUT_S)
    consumer.close()
    return [one.offset for one in found]


def read_all(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> Read:
    """Read both partitions of a topic to their ends."""
    options = {
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",  # offset 0 may be below the start of the log
    }
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", **options})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
    found: Read = {}
    ends: set[int] = set()
    while len(ends) < 2:
        message: Message | None = consumer.poll(TIMEOUT_S)
        assert message is not None, f"{topic} has no more records, and no end"
        if message.error():
            ends.add(message.partition())
        else:
            found[message.partition(), message.offset()] = (message.key(), message.value())
    consumer.close()
    return found
