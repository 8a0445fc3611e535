"""Stock consumers with `group.protocol=consumer` (KIP-848): librdkafka and Java's console consumer."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from testing.clients.stock import create_topic, unique
from testing.process.broker import BrokerProcess
from testing.process.tool_runner import ToolRunner
from testing.waiting import WAIT_S

PARTITIONS = 6
QUICK = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "3",
}
DIES = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "group.protocol": "consumer"})
consumer.subscribe([sys.argv[3]])
while True:
    consumer.poll(0.1)
"""


class Readers:
    """Consumers of one group, which are polled in turn."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.group = unique("kip848")
        self.all: list[Consumer] = []
        self.seen: Counter[bytes] = Counter()

    def start(self, topic: str, **more: str) -> Consumer:
        config = {"bootstrap.servers": self.bootstrap, "group.id": self.group, "group.protocol": "consumer"}
        more = {key.replace("_", "."): value for key, value in more.items()}
        consumer = Consumer({**config, "auto.offset.reset": "earliest", "enable.auto.commit": False, **more})
        consumer.subscribe([topic])
        self.all.append(consumer)
        return consumer

    def until(self, condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, what
            for consumer in self.all:
                message = consumer.poll(0.05)
                if message is not None and not message.error():
                    self.seen[message.value()] += 1

    def shares(self) -> list[int]:
        owned = [{(p.topic, p.partition) for p in consumer.assignment()} for consumer in self.all]
        assert len(set().union(*owned)) == sum(map(len, owned)), "no partition is owned twice"
        return sorted(map(len, owned))

    def stop(self, consumer: Consumer) -> None:
        self.all.remove(consumer)
        consumer.close()


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    return start_broker(QUICK)


@pytest.fixture
def readers(broker: BrokerProcess) -> Iterator[Readers]:
    made = Readers(broker.bootstrap)
    yield made
    for consumer in [*made.all]:
        made.stop(consumer)


def produce(bootstrap: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def test_members_come_leave_and_die_and_the_broker_restarts(broker: BrokerProcess, readers: Readers) -> None:
    topic = unique("shared")
    create_topic(broker.bootstrap, topic, PARTITIONS)
    produce(broker.bootstrap, topic, range(600))
    first = readers.start(topic)
    readers.until(lambda: len(readers.seen) == 600, "the first reads all")
    first.commit(asynchronous=False)
    second = readers.start(topic)
    readers.until(lambda: readers.shares() == [3, 3], "both have partitions")
    produce(broker.bootstrap, topic, range(600, 1200))
    readers.until(lambda: len(readers.seen) == 1200, "both read")
    for consumer in readers.all:
        consumer.commit(asynchronous=False)
    committed = first.committed([TopicPartition(topic, n) for n in range(PARTITIONS)], 30)
    assert [partition.offset for partition in committed] == [200] * PARTITIONS
    readers.stop(second)
    readers.until(lambda: readers.shares() == [6], "the first has all again")
    other = subprocess.Popen([sys.executable, "-c", DIES, broker.bootstrap, readers.group, topic])
    try:
        readers.until(lambda: readers.shares() == [3], "the other one has its share")
    finally:
        other.kill()
        other.wait(WAIT_S)
    readers.until(lambda: readers.shares() == [6], "the dead one's share goes to the first")
    broker.stop()
    broker.start()
    produce(broker.bootstrap, topic, range(1200, 1800))
    readers.until(lambda: len(readers.seen) == 1800, "all is read after the restart")
    assert set(readers.seen.values()) == {1}, "no record was read twice"


def test_a_regular_expression_finds_new_topics(broker: BrokerProcess, readers: Readers) -> None:
    name = unique("regex")
    create_topic(broker.bootstrap, f"{name}-a", 2)
    readers.start(f"^{name}-.*")
    readers.until(lambda: readers.shares() == [2], "the topic is found")
    create_topic(broker.bootstrap, f"{name}-b", 3)
    readers.until(lambda: readers.shares() == [5], "the new one too")


def test_a_static_member_gets_its_partitions_again(broker: BrokerProcess, readers: Readers) -> None:
    topic = unique("static")
    create_topic(broker.bootstrap, topic, PARTITIONS)
    first = readers.start(topic, group_instance_id="i")
    readers.until(lambda: readers.shares() == [6], "it has all")
    readers.stop(first)
    readers.start(topic, group_instance_id="i")
    readers.until(lambda: readers.shares() == [6], "it has all again")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (member,) = admin.describe_consumer_groups([readers.group])[readers.group].result(30).members
    assert member.group_instance_id == "i"


@pytest.mark.skipif(shutil.which("java") is None or shutil.which("mvn") is None, reason="needs Java, and Maven for the jars")
def test_the_java_console_consumer_reads_in_a_group(broker: BrokerProcess, tmp_path: Path) -> None:
    topic, group = unique("java"), unique("java-kip848")
    create_topic(broker.bootstrap, topic, PARTITIONS)
    produce(broker.bootstrap, topic, range(600))
    tools, at = ToolRunner("4.3.1", tmp_path), ("--bootstrap-server", broker.bootstrap)
    console = ("console-consumer", *at, "--topic", topic, "--group", group, "--consumer-property", "group.protocol=consumer")
    try:
        printed = tools.succeed(*console, "--from-beginning", "--max-messages", "600").splitlines()
        assert sorted(line for line in printed if line.isdigit()) == sorted(map(str, range(600)))
        rest = tools.succeed(*console, "--timeout-ms", "5000").splitlines()
        assert not [line for line in rest if line.isdigit()], "everything was committed"
        lines = [line.split() for line in tools.succeed("consumer-groups", *at, "--describe", "--group", group).splitlines()]
        assert sorted(line[2:6] for line in lines if line[:2] == [group, topic]) == [
            [str(n), "100", "100", "0"] for n in range(6)
        ]
        listed = tools.succeed("consumer-groups", *at, "--list", "--type", "consumer").splitlines()
        assert [group, "Consumer"] in [line.split()[:2] for line in listed]
    finally:
        tools.close()
