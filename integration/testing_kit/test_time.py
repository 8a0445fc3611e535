"""Stock clients meet time that a test moves: what a week does to their records, members, transactions and requests."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import confluent_kafka
import kafka
import pytest

from pybroker.admin.steps import Ask, Steps
from pybroker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pybroker.testing import Broker, ThreadBroker
from testing.waiting import WAIT_S, Deadline, until

WEEK_MS = 7 * 24 * 3_600_000
SESSION = {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 3_000}


@pytest.fixture
def broker() -> Iterator[ThreadBroker]:
    with Broker.in_thread(virtual_time=True) as running:
        yield running


@pytest.fixture
def consumer(broker: ThreadBroker) -> Iterator[kafka.KafkaConsumer]:
    broker.produce("orders", b"1")
    with_group = {"bootstrap_servers": broker.bootstrap, "group_id": "billing", "auto_offset_reset": "earliest"}
    one = kafka.KafkaConsumer("orders", **with_group, **SESSION)
    assert next(one).value == b"1"
    yield one
    one.close(autocommit=False)


@pytest.fixture
def transaction(broker: ThreadBroker) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "pay", "transaction.timeout.ms": 60_000, "log_level": 0}
    )
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("payments", b"1")
    assert producer.flush(WAIT_S) == 0
    return producer


@contextlib.contextmanager
def polled(consumer: kafka.KafkaConsumer) -> Iterator[None]:
    """Poll in a thread."""
    is_over = threading.Event()

    def poll() -> None:
        while not is_over.is_set():
            consumer.poll(timeout_ms=50)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(WAIT_S)


def values(broker: ThreadBroker, topic: str, *, committed: bool = False) -> list[bytes | None]:
    return [record.value for record in broker.consume(topic, committed=committed)]


def test_a_session_a_transaction_and_a_week_of_retention_end_in_less_than_a_second(
    broker: ThreadBroker, consumer: kafka.KafkaConsumer, transaction: confluent_kafka.Producer
) -> None:
    broker.create_topic("events", settings={"retention.ms": WEEK_MS})
    sender = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)
    sender.send("events", b"1").get(timeout=WAIT_S)
    sender.close()
    began_s = time.process_time()

    broker.clock.advance("40s")  # the last heartbeat was some real seconds before
    assert len(broker.groups()["billing"].members) == 1
    broker.clock.advance("6s")
    assert broker.groups()["billing"].members == ()
    assert broker.transactions()["pay"].is_open

    broker.clock.advance("15s")
    assert not broker.transactions()["pay"].is_open
    assert values(broker, "payments", committed=True) == []

    broker.clock.advance("6d")
    assert values(broker, "events") == [b"1"]
    broker.clock.advance("1d")
    assert values(broker, "events") == []

    assert time.process_time() - began_s < 1
    with pytest.raises(confluent_kafka.KafkaException, match=r"(?i)fenced|epoch|timed out|abort"):
        transaction.commit_transaction(WAIT_S)


def test_a_consumer_whose_session_is_over_joins_again(broker: ThreadBroker, consumer: kafka.KafkaConsumer) -> None:
    (before,) = broker.groups()["billing"].members
    broker.clock.advance("1m")
    assert broker.groups()["billing"].members == ()
    deadline = Deadline("the consumer is a member again")
    while not (members := broker.groups()["billing"].members):
        deadline.check()
        consumer.poll(timeout_ms=100)
    assert [one.member_id for one in members] != [before.member_id]


def test_a_member_with_frequent_heartbeats_loses_its_session_in_each_advance_that_is_longer(broker: ThreadBroker) -> None:
    broker.create_topic("orders")
    lost, settings = [], {"group.id": "billing", "group.protocol": "consumer", "log_level": 0}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, **settings})
    consumer.subscribe(["orders"], on_lost=lambda _consumer, partitions: lost.append(len(partitions)))
    for number in range(5):
        deadline = Deadline("the consumer has the partition, by its heartbeats each 100 ms")
        while not consumer.assignment():
            deadline.check()
            consumer.poll(0.05)
        assert len(lost) == number
        broker.clock.advance("46s")
        deadline = Deadline("the consumer has lost it")
        while len(lost) == number:
            deadline.check()
            consumer.poll(0.05)
    consumer.close()


def test_members_keep_their_places_when_their_time_is_left_out(
    broker: ThreadBroker, consumer: kafka.KafkaConsumer, transaction: confluent_kafka.Producer
) -> None:
    before = broker.groups()["billing"].members
    broker.clock.advance("14d", only=["logs", "transactions", "requests"])
    assert broker.groups()["billing"].members == before
    assert not any(one.is_open for one in broker.transactions().values())
    assert values(broker, "orders") == []  # the retention of a week, which is the default
    broker.produce("orders", b"2")
    assert next(consumer).value == b"2"


def test_a_fetch_that_waits_gets_its_response(broker: ThreadBroker) -> None:
    broker.create_topic("orders")
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        fetch_max_wait_ms=600_000,
        request_timeout_ms=900_000,
        connections_max_idle_ms=1_000_000,
    )
    consumer.assign([kafka.TopicPartition("orders", 0)])
    consumer.seek_to_beginning()

    def count() -> int:
        return sum(one.api == "Fetch" for one in broker.requests)

    with polled(consumer):
        until(lambda: count() == 1, "the consumer asks for records")
        broker.clock.advance("9m", only=["requests"])
        assert count() == 1
        broker.clock.advance("90s", only=["requests"])
        until(lambda: count() == 2, "it got a response, and asks again")
    consumer.close()


def test_a_join_that_waits_for_a_member_ends_with_its_time(broker: ThreadBroker, consumer: kafka.KafkaConsumer) -> None:
    (first,) = broker.groups()["billing"].members
    second = kafka.KafkaConsumer("orders", bootstrap_servers=broker.bootstrap, group_id="billing", **SESSION)
    with polled(second):
        until(lambda: broker.groups()["billing"].state == "PreparingRebalance", "the second member joins")
        broker.clock.advance("46s")  # the session of the first member is over
        until(lambda: broker.groups()["billing"].state == "Stable", "the group is without the first member")
        assert first.member_id not in {one.member_id for one in broker.groups()["billing"].members}
    second.close()


def test_an_idle_producer_is_forgotten_and_goes_on_to_send(broker: ThreadBroker) -> None:
    def known() -> Steps[list[int]]:
        topics = [TopicRequest(name="orders", partition_indexes=[0])]
        response = yield Ask(DescribeProducersRequest(topics=topics), 0)
        return [one.producer_id for one in response.topics[0].partitions[0].active_producers]

    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0})
    producer.produce("orders", b"1")
    assert producer.flush(WAIT_S) == 0
    assert len(broker._carry_out(known())) == 1
    broker.clock.advance("20h")
    assert len(broker._carry_out(known())) == 1
    broker.clock.advance("5h")  # producer.id.expiration.ms is a day
    assert broker._carry_out(known()) == []
    producer.produce("orders", b"2")
    assert producer.flush(WAIT_S) == 0
    assert values(broker, "orders") == [b"1", b"2"]


@pytest.mark.parametrize(("kind", "kept"), [("CreateTime", []), ("LogAppendTime", [b"late"])])
def test_records_have_the_time_of_their_clients_or_that_of_the_broker(broker: ThreadBroker, kind: str, kept: list[bytes]) -> None:
    broker.create_topic("orders", settings={"retention.ms": WEEK_MS, "message.timestamp.type": kind})
    broker.clock.advance("8d")
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send("orders", b"late").get(timeout=WAIT_S)
    producer.close()
    broker.clock.advance("1h")
    assert values(broker, "orders") == kept


def test_time_does_not_go_back_when_the_broker_is_started_again(broker: ThreadBroker) -> None:
    broker.create_topic("orders", settings={"retention.ms": WEEK_MS})
    broker.clock.advance("3d")
    broker.produce("orders", b"1", timestamp_ms=broker.clock.time_ms())
    broker.kill()
    broker.clock.advance("3d")  # passes while it does not run
    broker.restart()
    assert values(broker, "orders") == [b"1"]
    broker.clock.advance("5d")
    assert values(broker, "orders") == []
