"""Stock clients meet faults as they would meet those of Kafka: they try again or raise, and what was acknowledged is kept."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from pybroker.testing import Broker, ThreadBroker
from testing.waiting import WAIT_S, Deadline

COUNT = 12
VALUES = [str(number).encode() for number in range(COUNT)]
RULES: list[dict[str, Any]] = [
    {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2},
    {"api": "Produce", "error": "NOT_ENOUGH_REPLICAS", "times": 2},
    {"api": "Produce", "error": "REQUEST_TIMED_OUT", "when": "after", "times": 2},
    {"api": "Produce", "delay_s": 0.2, "nth": 2},
    {"api": "Produce", "close": True, "nth": 2},
    {"api": "Produce", "close": True, "when": "after", "nth": 2},
    {"api": "Produce", "cut": 6, "nth": 2},
    {"api": "Produce", "throttle_ms": 100, "nth": 2},
    {"api": "Metadata", "error": "LEADER_NOT_AVAILABLE", "times": 2},
    {"api": "Metadata", "topic": "orders", "close": True, "times": 1},  # aiokafka gives up at its first one, without topics
    {"api": "InitProducerId", "error": "COORDINATOR_LOAD_IN_PROGRESS", "times": 1},
    {"api": "Produce", "close": True, "probability": 0.3, "seed": 1, "times": 4},
    {"api": "Produce", "mute_s": 0.2, "nth": 2},
    {"disk_full": True, "for_s": 0.3},
    {"disk_delay_s": 0.01},
]


def with_confluent(bootstrap: str) -> list[bytes]:
    acknowledged: list[bytes] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0, "retry.backoff.ms": 50}
    )
    for value in VALUES:
        producer.produce("orders", value, on_delivery=lambda error, sent: error or acknowledged.append(sent.value()))
        producer.flush(WAIT_S)
    return acknowledged


def with_kafka_python(bootstrap: str) -> list[bytes]:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, retry_backoff_ms=50)
    try:
        for value in VALUES:
            producer.send("orders", value).get(WAIT_S)
    finally:
        producer.close(WAIT_S)
    return VALUES


def with_aiokafka(bootstrap: str) -> list[bytes]:
    async def work() -> None:
        options = {"bootstrap_servers": bootstrap, "enable_idempotence": True, "retry_backoff_ms": 50}
        async with aiokafka.AIOKafkaProducer(**options) as producer:
            for value in VALUES:
                await asyncio.wait_for(producer.send_and_wait("orders", value), WAIT_S)

    asyncio.run(work())
    return VALUES


@pytest.mark.parametrize("produce", [with_confluent, with_kafka_python, with_aiokafka])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: "-".join(map(str, rule.values())))
def test_producers_try_again_and_nothing_is_lost_or_doubled(
    broker: ThreadBroker, produce: Callable[[str], list[bytes]], rule: dict[str, Any]
) -> None:
    broker.create_topic("orders")
    added = broker.faults.add(**rule)
    assert produce(broker.bootstrap) == VALUES
    assert added.count >= 1, "the client has met the fault"
    broker.faults.clear()
    assert [one.value for one in broker.consume("orders")] == VALUES


def test_an_error_that_no_client_tries_again_is_raised(broker: ThreadBroker) -> None:
    broker.create_topic("orders")
    broker.faults.add(api="Produce", error="TOPIC_AUTHORIZATION_FAILED")
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=False)
    with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
        producer.send("orders", b"1").get(WAIT_S)
    producer.close(WAIT_S)
    assert broker.consume("orders") == []


def test_a_dropped_request_times_out_in_the_client(broker: ThreadBroker) -> None:
    broker.create_topic("orders")
    rule = broker.faults.add(api="Produce", drop=True, times=1)
    settings = {"socket.timeout.ms": 300, "linger.ms": 0, "log_level": 0}
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, **settings})
    began = time.monotonic()
    producer.produce("orders", b"1")
    assert producer.flush(WAIT_S) == 0
    assert time.monotonic() - began >= 0.3
    assert rule.count == 1
    assert [one.value for one in broker.consume("orders")] == [b"1"]


def test_a_broker_with_dropped_requests_stops_at_once() -> None:
    with Broker.in_thread() as broker:
        broker.faults.add(api="Metadata", drop=True)
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        producer.produce("orders", b"1")
        deadline = Deadline("the request is dropped")
        while not [one for one in broker.faults.rules.values() if one.count]:
            deadline.check()
            producer.poll(0.01)
        began = time.monotonic()
    assert time.monotonic() - began < 2.0
    producer.purge()


def consumer(broker: ThreadBroker, **settings: object) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer({
        "bootstrap.servers": broker.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest", "log_level": 0,
        "session.timeout.ms": 6000, "heartbeat.interval.ms": 200, **settings,
    })  # fmt: skip


def polled(reader: confluent_kafka.Consumer, until: Callable[[Any], object], what: str) -> Any:
    deadline = Deadline(what)
    while True:
        deadline.check()
        message = reader.poll(0.1)
        if until(message):
            return message


def test_a_wrong_checksum_is_noticed_and_the_records_are_read_again(broker: ThreadBroker) -> None:
    broker.produce("orders", b"1")
    broker.faults.add(api="Fetch", topic="orders", corrupt_crc=True, times=1)
    reader = consumer(broker, **{"check.crcs": True})
    reader.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    polled(reader, lambda one: one and one.error() and "CRC" in one.error().str(), "the wrong checksum is noticed")
    assert polled(reader, lambda one: one and not one.error(), "the record is read").value() == b"1"
    reader.close()


def test_kafka_python_raises_for_a_wrong_checksum_and_another_consumer_reads_the_record(broker: ThreadBroker) -> None:
    broker.produce("orders", b"1")
    broker.faults.add(api="Fetch", topic="orders", corrupt_crc=True, times=1)
    settings = {"bootstrap_servers": broker.bootstrap, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    reader = kafka.KafkaConsumer("orders", group_id="readers", **settings)
    with pytest.raises(kafka.errors.CorruptRecordError):
        reader.poll(timeout_ms=WAIT_S * 1000)  # and the next one would never return
    reader.close()
    with contextlib.closing(kafka.KafkaConsumer("orders", group_id="readers", **settings)) as reader:
        assert next(reader).value == b"1"


def test_aiokafka_raises_for_a_wrong_checksum_and_reads_the_record_after_a_seek(broker: ThreadBroker) -> None:
    broker.produce("orders", b"1")
    broker.faults.add(api="Fetch", topic="orders", corrupt_crc=True, times=1)

    async def read() -> Any:
        async with aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap) as reader:
            reader.assign([aiokafka.TopicPartition("orders", 0)])
            await reader.seek_to_beginning()
            with pytest.raises(aiokafka.errors.CorruptRecordException):
                await asyncio.wait_for(reader.getone(), WAIT_S)
            await reader.seek_to_beginning()
            return await asyncio.wait_for(reader.getone(), WAIT_S)

    assert asyncio.run(read()).value == b"1"


@pytest.mark.parametrize(
    ("error", "lost"), [("REBALANCE_IN_PROGRESS", False), ("UNKNOWN_MEMBER_ID", True), ("ILLEGAL_GENERATION", True)]
)
def test_a_member_rebalances_by_the_error_of_its_heartbeat(broker: ThreadBroker, error: str, *, lost: bool) -> None:
    broker.produce("orders", b"1")
    events: list[str] = []
    reader = consumer(broker)
    reader.subscribe(
        ["orders"],
        on_assign=lambda *_: events.append("assigned"),
        on_revoke=lambda *_: events.append("revoked"),
        on_lost=lambda *_: events.append("lost"),
    )
    polled(reader, lambda _: events, "the member is assigned its partition")
    rule = broker.faults.add(api="Heartbeat", group="readers", error=error, times=1)
    polled(reader, lambda _: events.count("assigned") == 2, "the member is assigned its partition again")
    assert events == ["assigned", "lost" if lost else "revoked", "assigned"]
    assert rule.count == 1
    reader.close()


def test_a_producer_that_was_fenced_raises(broker: ThreadBroker) -> None:
    broker.create_topic("orders")
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "pay", "log_level": 0})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    broker.faults.add(api="AddPartitionsToTxn", transactional_id="pay", error="PRODUCER_FENCED", times=1)
    producer.produce("orders", b"1")
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        producer.commit_transaction(WAIT_S)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError._FENCED
    assert broker.consume("orders", committed=True) == []
