"""Topics and offsets through the admin and consumer calls of the stock clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import KafkaAdminClient

from testing.clients.stock import CLIENTS, Confluent, KafkaPython, create_topic, delete_topic, unique, wait
from testing.samples import T0_MS, Received, Sample, assert_equal, varied

TIMEOUT_S = 30


@contextmanager
def kafka_python_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield admin
    finally:
        admin.close()


def test_confluent_creates_lists_describes_and_deletes(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [unique("admin-confluent"), unique("admin.confluent")]
    futures = admin.create_topics([NewTopic(names[0], 3, 1), NewTopic(names[1], 1, 1, config={"retention.ms": "86400000"})])
    for future in futures.values():
        wait(future)
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        wait(admin.create_topics([NewTopic(names[0], 3, 1)])[names[0]])
    listed = admin.list_topics(timeout=TIMEOUT_S)
    assert len(listed.topics[names[0]].partitions) == 3
    assert len(listed.topics[names[1]].partitions) == 1
    assert all(p.leader in listed.brokers for p in listed.topics[names[0]].partitions.values())
    assert listed.controller_id in listed.brokers
    assert listed.cluster_id
    for future in admin.delete_topics(names).values():
        wait(future)
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        wait(admin.delete_topics([names[0]])[names[0]])
    assert not set(names) & set(admin.list_topics(timeout=TIMEOUT_S).topics)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic("no spaces", 1, 1), "TOPIC_EXCEPTION"),
        (NewTopic("x" * 250, 1, 1), "TOPIC_EXCEPTION"),
        (NewTopic("zero-partitions", 0, 1), "INVALID_PARTITIONS"),
        (NewTopic("too-many-replicas", 1, 7), "INVALID_REPLICATION_FACTOR"),
        (NewTopic("bad-config", 1, 1, config={"retention.ms": "soon"}), "INVALID_CONFIG"),
        (NewTopic("unknown-config", 1, 1, config={"no.such.key": "1"}), "INVALID_CONFIG"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.topic[:20],
)
def test_a_topic_that_cannot_be_created_is_refused_and_does_not_exist(topic: NewTopic, error: str, bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with pytest.raises(KafkaException, match=error):
        wait(admin.create_topics([topic])[topic.topic])
    assert topic.topic not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_confluent_validates_a_topic_without_creating_it(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wait(admin.create_topics([NewTopic("only-a-question", 2, 1)], validate_only=True)["only-a-question"])
    assert "only-a-question" not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_kafka_python_creates_lists_and_deletes(bootstrap: str) -> None:
    name = unique("admin-kafka-python")
    with kafka_python_admin(bootstrap) as admin:
        admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}}, wait_for_metadata=True)
        assert name in admin.list_topics()
        (described,) = admin.describe_topics([name])
        assert sorted(p["partition_index"] for p in described["partitions"]) == [0, 1]
        admin.delete_topics([name])
        assert name not in admin.list_topics()


def test_aiokafka_creates_lists_and_deletes(bootstrap: str) -> None:
    name = unique("admin-aiokafka")

    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([AioNewTopic(name=name, num_partitions=2, replication_factor=1)])
            assert name in await admin.list_topics()
            (described,) = await admin.describe_topics([name])
            assert sorted(p["partition"] for p in described["partitions"]) == [0, 1]
            await admin.delete_topics([name])
            assert name not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(run())


def test_a_deleted_topic_can_be_created_again_at_once(bootstrap: str) -> None:
    name = unique("again-and-again")
    client = Confluent()
    for life in range(5):
        create_topic(bootstrap, name)
        samples = varied(20 + life, seed=life)
        assert client.produce(bootstrap, name, samples) == list(range(20 + life)), (
            "offsets begin at 0, so nothing of the old log is left"
        )
        for reader in CLIENTS:
            assert_equal(reader.consume(bootstrap, name, len(samples)), samples)
        delete_topic(bootstrap, name)


def test_a_topic_is_created_when_a_producer_names_it(bootstrap: str) -> None:
    for client in CLIENTS:
        name = unique(f"made-by-{client.name}")
        samples = varied(5)
        client.produce(bootstrap, name, samples)
        assert_equal(client.consume(bootstrap, name, 5), samples)


# 100 records per partition: pairs share a timestamp, and timestamps rise by 10 ms
LOOKUPS = [
    (T0_MS - 1000, 0, T0_MS),
    (T0_MS, 0, T0_MS),
    (T0_MS + 1, 2, T0_MS + 10),
    (T0_MS + 10, 2, T0_MS + 10),
    (T0_MS + 245, 50, T0_MS + 250),
    (T0_MS + 490, 98, T0_MS + 490),
    (T0_MS + 491, None, None),
]


@pytest.fixture(scope="module")
def timed_topic(bootstrap: str) -> str:
    name = unique("offsets-for-times")
    create_topic(bootstrap, name, 2)
    samples = varied(100)
    for codec, part in (("none", samples[:33]), ("gzip", samples[33:70]), ("none", samples[70:])):
        Confluent().produce(bootstrap, name, part, codec=codec)
    return name


def test_kafka_python_finds_offsets(timed_topic: str, bootstrap: str) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    try:
        full, empty = kafka.TopicPartition(timed_topic, 0), kafka.TopicPartition(timed_topic, 1)
        assert consumer.beginning_offsets([full, empty]) == {full: 0, empty: 0}
        assert consumer.end_offsets([full, empty]) == {full: 100, empty: 0}
        assert consumer.partitions_for_topic(timed_topic) == {0, 1}
        for time_ms, offset, found_ms in LOOKUPS:
            found = consumer.offsets_for_times({full: time_ms})[full]
            assert (found and found.offset, found and found.timestamp) == (offset, found_ms)
        assert consumer.offsets_for_times({empty: T0_MS})[empty] is None
        consumer.assign([full])
        consumer.seek_to_end(full)
        assert consumer.position(full) == 100
    finally:
        consumer.close()


def test_confluent_finds_offsets(timed_topic: str, bootstrap: str) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        assert consumer.get_watermark_offsets(confluent_kafka.TopicPartition(timed_topic, 0), timeout=TIMEOUT_S) == (0, 100)
        assert consumer.get_watermark_offsets(confluent_kafka.TopicPartition(timed_topic, 1), timeout=TIMEOUT_S) == (0, 0)
        for time_ms, offset, _ in LOOKUPS:
            asked = confluent_kafka.TopicPartition(timed_topic, 0, time_ms)
            (found,) = consumer.offsets_for_times([asked], timeout=TIMEOUT_S)
            assert found.offset == (confluent_kafka.OFFSET_END if offset is None else offset)
    finally:
        consumer.close()


def test_aiokafka_finds_offsets(timed_topic: str, bootstrap: str) -> None:
    async def run() -> None:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
            full = AioTopicPartition(timed_topic, 0)
            assert await consumer.beginning_offsets([full]) == {full: 0}
            assert await consumer.end_offsets([full]) == {full: 100}
            for time_ms, offset, found_ms in LOOKUPS:
                found = (await consumer.offsets_for_times({full: time_ms}))[full]
                assert (found and found.offset, found and found.timestamp) == (offset, found_ms)

    asyncio.run(run())


def test_a_fetch_beyond_the_end_is_out_of_range(timed_topic: str, bootstrap: str) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest")
    try:
        where = kafka.TopicPartition(timed_topic, 0)
        consumer.assign([where])
        consumer.seek(where, 5_000)
        assert next(consumer).offset == 0, "the client got the error, and returned to the beginning"
    finally:
        consumer.close()


def test_a_waiting_fetch_gets_its_response_when_a_record_comes(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, fetch_max_wait_ms=20_000, consumer_timeout_ms=15_000
    )
    try:
        where = kafka.TopicPartition(topic, 0)
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        assert not consumer.poll(timeout_ms=300), "the fetch is under way and the partition empty"
        KafkaPython().produce(bootstrap, topic, [Sample(b"k", b"v", T0_MS)])
        record = next(consumer, None)  # long before the fetch times out
        assert record is not None
        assert Received(record.offset, Sample(record.key, record.value, record.timestamp)) == (0, Sample(b"k", b"v", T0_MS))
    finally:
        consumer.close()
