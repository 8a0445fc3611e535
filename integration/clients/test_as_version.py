"""Clients of today, and a broker that serves as a release of Kafka: they work with it as with the brokers of that release.

What they do was compared with brokers of Kafka 0.8.2.2, 0.9.0.1, 0.10.2.2, 1.1.1, 2.8.2, 3.9.2 and 4.3.1.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer

from pybroker.config.server_settings import RELEASES
from pybroker.testing import Broker
from testing.places import JAVA_SOURCES
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath

TOPIC = "orders"
TIMEOUT_S = 60
BEFORE_API_VERSIONS = {"0.8.2": "0.8.2.2", "0.9": "0.9.0.1"}
WITHOUT_GROUPS = "0.8.2"
"""Its consumers keep their offsets at the broker, but divide partitions by ZooKeeper."""
PROGRAM = JAVA_SOURCES / "RoundTrip.java"


def with_kafka_python(bootstrap: str, release: str) -> Any:
    """Send a record and read it. A client that is given no version asks for that of the broker, which those before 0.10 lack."""
    common: dict[str, Any] = {"bootstrap_servers": bootstrap}
    if release in BEFORE_API_VERSIONS:
        common["api_version"] = tuple(map(int, release.split(".")))
    producer = KafkaProducer(**common)
    producer.send(TOPIC, b"1").get(timeout=TIMEOUT_S)
    producer.close()
    group = None if release == WITHOUT_GROUPS else "readers"
    consumer = KafkaConsumer(TOPIC, group_id=group, auto_offset_reset="earliest", consumer_timeout_ms=TIMEOUT_S * 1000, **common)
    value = next(consumer).value
    consumer.close()
    return value


def with_librdkafka(bootstrap: str, release: str) -> Any:
    common: dict[str, Any] = {"bootstrap.servers": bootstrap}
    if release in BEFORE_API_VERSIONS:
        common |= {"api.version.request": False, "broker.version.fallback": BEFORE_API_VERSIONS[release]}
    producer = confluent_kafka.Producer(common)
    producer.produce(TOPIC, b"1")
    assert producer.flush(TIMEOUT_S) == 0
    consumer = confluent_kafka.Consumer({**common, "group.id": "readers", "auto.offset.reset": "earliest"})
    if release == WITHOUT_GROUPS:
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    else:
        consumer.subscribe([TOPIC])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    assert message is not None
    return message.value()


def with_aiokafka(bootstrap: str, _release: str) -> Any:
    async def run() -> Any:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait(TOPIC, b"1")
        async with AIOKafkaConsumer(
            TOPIC, bootstrap_servers=bootstrap, group_id="readers", auto_offset_reset="earliest"
        ) as consumer:
            return (await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value

    return asyncio.run(run())


PAIRS = [
    (client, release)
    for client in (with_kafka_python, with_librdkafka, with_aiokafka)
    for release in RELEASES
    if client is not with_aiokafka or release not in BEFORE_API_VERSIONS  # it has no setting for them any more
]


@pytest.mark.parametrize(("client", "release"), PAIRS)
def test_a_record_is_sent_and_read(client: Callable[[str, str], Any], release: str) -> None:
    with Broker.in_thread(as_version=release) as broker:
        broker.create_topic(TOPIC)
        assert client(broker.bootstrap, release) == b"1"
        sent = {one.api for one in broker.requests}
    assert ("ApiVersions" in sent) == (release not in BEFORE_API_VERSIONS)


@pytest.mark.skipif(shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven")
@pytest.mark.parametrize(
    ("java", "release", "printed"),
    [
        ("3.9.2", "0.10.2", "UnsupportedVersionException"),
        ("4.3.1", "0.10.2", "KafkaException"),  # "Cannot execute transactional method because we are in an error state"
        ("3.9.2", "1.1", "1"),
        ("4.3.1", "1.1", "1"),
        ("3.9.2", "4.3", "1"),
        ("4.3.1", "2.8", "1"),
        ("4.3.1", "3.9", "1"),
    ],
)
def test_clients_of_java_work_or_fail_as_with_that_release(java: str, release: str, printed: str) -> None:
    with Broker.in_thread(as_version=release) as broker:
        broker.create_topic(TOPIC)
        command = [*quick_java(classpath(java), PROGRAM), PROGRAM.stem, broker.bootstrap, TOPIC]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines()[-1:] == [printed], done.stderr
