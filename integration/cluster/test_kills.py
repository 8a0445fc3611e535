"""Brokers of a cluster are killed while clients write and read: what was acknowledged is there, once, in order."""

from __future__ import annotations

import gc
import socket
import time
from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_END, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from testing.process.several import SeveralBrokers
from testing.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 60
PARTITIONS = 6
KILLS = 4
BETWEEN_KILLS = 3_000
"""Records that are acknowledged between two kills, so that each one meets a cluster that works."""
QUICK = {"retry.backoff.ms": 20, "retry.backoff.max.ms": 100, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100}


class Written:
    """The records of one producer, which are numbers that grow, and the offsets of those that were acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 1, **QUICK}
        self._producer, self._topic = Producer(settings), topic
        self.sent = self.acknowledged = 0
        self.offsets: dict[int, dict[int, int]] = defaultdict(dict)

    def write(self, count: int) -> None:
        """Write until `count` records more are acknowledged."""
        goal, end = self.acknowledged + count, time.monotonic() + TIMEOUT_S
        while self.acknowledged < goal:
            assert time.monotonic() < end, f"{self.acknowledged} of {goal} records were acknowledged"
            if self.sent < self.acknowledged + 1_000:
                self._producer.produce(self._topic, b"%d" % self.sent, partition=self.sent % PARTITIONS, on_delivery=self._note)
                self.sent += 1
            self._producer.poll(0 if self.sent < self.acknowledged + 1_000 else 0.01)

    def flush(self) -> None:
        assert self._producer.flush(TIMEOUT_S) == 0

    def _note(self, error: object, message: Message) -> None:
        assert error is None, error
        self.acknowledged += 1
        self.offsets[message.partition()][message.offset()] = int(message.value())


def read(bootstrap: str, topic: str) -> dict[int, dict[int, int]]:
    """Return all records of a topic by partition and offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, **QUICK})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: dict[int, dict[int, int]] = defaultdict(dict)
    end = time.monotonic() + TIMEOUT_S
    try:
        while not all(is_read(consumer, topic, number) for number in range(PARTITIONS)):
            assert time.monotonic() < end, "the topic cannot be read to its end"
            for message in consumer.consume(5_000, 0.5):
                assert message.error() is None, message.error()
                found[message.partition()][message.offset()] = int(message.value())
    finally:
        consumer.close()
    return found


def is_read(consumer: Consumer, topic: str, number: int) -> bool:
    (position,) = consumer.position([TopicPartition(topic, number)])
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), cached=True)
    return position.offset >= 0 and end not in (OFFSET_END, -1001) and position.offset == end


def test_kill_9_of_any_broker_again_and_again(tmp_path: Path) -> None:
    random = Random(7)
    with SeveralBrokers(tmp_path, 3, {"default.replication.factor": "3", "min.insync.replicas": "2"}) as brokers:
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
        admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(TIMEOUT_S)
        written = Written(brokers.bootstrap, "t")
        written.write(BETWEEN_KILLS)
        for _ in range(KILLS):
            brokers.kill(random.choice(range(1, 4)))
            written.write(BETWEEN_KILLS)
            until(lambda: is_whole(admin), "all replicas are in sync again", TIMEOUT_S)
        written.flush()
        found = read(brokers.bootstrap, "t")
        for number in range(PARTITIONS):
            lost = [offset for offset, value in written.offsets[number].items() if found[number].get(offset) != value]
            values = [found[number][offset] for offset in sorted(found[number])]
            assert not lost
            assert values == sorted(set(values)), "in the order in which they were sent, each once"
        assert sum(map(len, found.values())) == written.sent
        assert brokers.stop() == 0
        for number in range(PARTITIONS):
            logs = {log.read_bytes() for log in brokers.data_dir.glob(f"broker_*/t-{number}/*.log")}
            assert len(logs) == 1, "the replicas agree byte for byte"


def is_whole(admin: AdminClient) -> bool:
    found = admin.list_topics("t", timeout=TIMEOUT_S).topics["t"].partitions.values()
    return all(len(one.isrs) == len(one.replicas) == 3 for one in found)


def test_kafka_python_writes_and_reads_in_a_group_while_its_coordinator_dies(tmp_path: Path) -> None:
    with SeveralBrokers(tmp_path, 3, {"default.replication.factor": "3", "min.insync.replicas": "2"}) as brokers:
        write_and_read(brokers)
    for one in gc.get_objects():
        if (
            type(one) is socket.socket
            and one.fileno() >= 0
            and one.family == socket.AF_INET
            and one.getsockname()[0] == "0.0.0.0"
        ):
            one.close()  # kafka-python leaves sockets open whose connection was refused


def write_and_read(brokers: SeveralBrokers) -> None:
    servers = brokers.bootstrap.split(",")
    producer = KafkaProducer(bootstrap_servers=servers, acks="all", retries=100)
    consumer = KafkaConsumer(
        "t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
    )  # fmt: skip
    seen: set[bytes] = set()

    def has_all(wanted: set[bytes]) -> bool:
        for records in consumer.poll(200).values():
            seen.update(record.value for record in records)
        return seen >= wanted

    wanted: set[bytes] = set()
    for round_number in range(3):
        for number in range(100):
            value = b"%d-%d" % (round_number, number)
            producer.send("t", value).get(timeout=TIMEOUT_S)
            wanted.add(value)
        until(lambda: has_all(wanted), "the group has read all", TIMEOUT_S)
        consumer.commit()
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})  # one that has seen kills may wait for a minute
        coordinator = admin.describe_consumer_groups(["g"])["g"].result(TIMEOUT_S).coordinator.id
        brokers.kill(coordinator)
    producer.close()
    consumer.close()
