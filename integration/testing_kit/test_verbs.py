"""The work of stock clients is seen from the test, in each kind of broker, and a reset leaves nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from pybroker.admin.groups import TopicPartition
from pybroker.testing import Broker
from testing.waiting import Deadline

TIMEOUT_S = 60


@pytest.fixture(params=["in_thread", "subprocess"])
def broker(request: pytest.FixtureRequest) -> Iterator[Any]:
    make: Callable[[], Any] = getattr(Broker, request.param)
    with make() as started:
        yield started


def consumer(bootstrap: str, **settings: object) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer({
        "bootstrap.servers": bootstrap, "group.id": "readers", "client.id": "reader", "auto.offset.reset": "earliest",
        "enable.auto.commit": False, **{name.replace("_", "."): value for name, value in settings.items()},
    })  # fmt: skip


def read(reader: confluent_kafka.Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    deadline = Deadline(f"{count} records are read", TIMEOUT_S)
    while len(values) < count:
        deadline.check()
        if (message := reader.poll(0.1)) is not None and message.error() is None:
            values.append(message.value())
    return values


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_seen_with_members_and_lag(broker: Any, protocol: str) -> None:
    broker.create_topic("orders", 2)
    broker.produce("orders", b"1", b"2", b"3")
    reader = consumer(broker.bootstrap, group_protocol=protocol)
    reader.subscribe(["orders"])
    try:
        assert read(reader, 3) == [b"1", b"2", b"3"]
        reader.commit(offsets=[confluent_kafka.TopicPartition("orders", 0, 2)], asynchronous=False)
        group = broker.groups()["readers"]
        assert (group.kind, group.state, group.lag) == (protocol, "Stable", 1)
        assert group.offsets == {TopicPartition("orders", 0): (2, 3, "")}
        (member,) = group.members
        assert member.client_id == "reader"
        assert {*member.assigned} == {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    finally:
        reader.close()
    assert broker.groups()["readers"].members == ()


def test_a_transaction_is_seen_while_it_is_open(broker: Any) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "pay"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("payments", b"1")
    assert producer.flush(TIMEOUT_S) == 0
    transaction = broker.transactions()["pay"]
    assert transaction.is_open
    assert transaction.partitions == (TopicPartition("payments", 0),)
    assert len(broker.consume("payments")) == 1
    assert broker.consume("payments", committed=True) == []
    assert broker.topics()["payments"].partitions[0].stable == 0
    producer.abort_transaction(TIMEOUT_S)
    assert not broker.transactions()["pay"].is_open
    assert broker.consume("payments", committed=True) == []
    producer.begin_transaction()
    producer.produce("payments", b"2")
    producer.commit_transaction(TIMEOUT_S)
    assert [one.value for one in broker.wait_for("payments", 1, committed=True)] == [b"2"]
    assert [batch.is_control for batch in broker.batches("payments")] == [False, True, False, True]


def test_after_a_reset_the_same_names_begin_from_the_start(broker: Any) -> None:
    for _ in range(3):
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "pay"})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("orders", b"1")
        producer.commit_transaction(TIMEOUT_S)
        reader = consumer(broker.bootstrap)
        reader.subscribe(["orders"])
        assert read(reader, 1) == [b"1"]
        reader.commit(asynchronous=False)
        reader.close()
        broker.reset()
        assert (broker.topics(), broker.groups(), broker.transactions()) == ({}, {}, {})


def test_the_requests_of_a_client_are_seen_in_their_order() -> None:
    with Broker.in_thread() as broker:
        broker.create_topic("orders")
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "client.id": "shop", "linger.ms": 0})
        for _ in range(2):
            producer.produce("orders", b"1")
            assert producer.flush(TIMEOUT_S) == 0
        produced = [one for one in broker.requests if one.api == "Produce"]
        assert len(produced) == 2
        assert {(one.client_id, one.topics, one.partitions) for one in produced} == {
            ("shop", ("orders",), frozenset({("orders", 0)}))
        }


def test_a_broker_outlasts_kills_and_goes_back_to_a_snapshot(broker: Any) -> None:
    address = broker.bootstrap
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for number in range(3):
        producer.produce("orders", str(number).encode())
        assert producer.flush(TIMEOUT_S) == 0
        if number == 1:
            snapshot = broker.snapshot()
        broker.kill()
        broker.restart()
        assert broker.bootstrap == address
    assert [one.value for one in broker.consume("orders")] == [b"0", b"1", b"2"]
    broker.restore(snapshot)
    assert [one.value for one in broker.consume("orders")] == [b"0", b"1"]


def test_members_and_transactions_that_are_left_are_seen(broker: Any) -> None:
    assert broker.leaks() == []
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "pay"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("payments", b"1")
    assert producer.flush(TIMEOUT_S) == 0
    reader = consumer(broker.bootstrap)
    reader.subscribe(["payments"])
    deadline = Deadline("the reader is a member", TIMEOUT_S)
    while not [line for line in broker.leaks() if "the group readers has the member" in line]:
        deadline.check()
        reader.poll(0.1)
    assert "the transaction pay is open" in broker.leaks()
    producer.abort_transaction(TIMEOUT_S)
    reader.close()
    assert not [line for line in broker.leaks() if "connection" not in line]
