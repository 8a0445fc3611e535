"""librdkafka's mock cluster does what docs/compare-testing.md has about it, and our broker beside it.

When one of these fails with a new librdkafka, the page has to change.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pybroker.testing import Broker

TIMEOUT_S = 60
REQUEST_S = 2
QUIET = {"log_level": 0}


@pytest.fixture
def mock() -> Iterator[str]:
    client = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "", **QUIET})
    (broker,) = client.list_topics(timeout=TIMEOUT_S).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del client


@pytest.fixture
def ours() -> Iterator[str]:
    with Broker.in_thread() as broker:
        yield broker.bootstrap


def after_an_abort(bootstrap: str) -> bytes | None:
    """Write an aborted record and a committed one, and return the first that a consumer of committed records gets."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "pay", **QUIET})
    producer.init_transactions(TIMEOUT_S)
    for value, end in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce("payments", value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        end(TIMEOUT_S)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "isolation.level": "read_committed", **QUIET})
    consumer.assign([TopicPartition("payments", 0, 0)])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    assert message is not None
    return message.value()


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    (future,) = admin.create_topics([NewTopic("orders", 1, 1)], request_timeout=REQUEST_S).values()
    future.result(TIMEOUT_S)


def read_by_a_group(bootstrap: str, protocol: str) -> bytes | None:
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    producer.produce("orders", b"1", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    settings = {"group.id": protocol, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings, **QUIET})
    consumer.subscribe(["orders"])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    assert message is not None
    return message.value()


def test_the_mock_gives_aborted_records_to_readers_of_committed_ones_and_our_broker_does_not(mock: str, ours: str) -> None:
    assert after_an_abort(mock) == b"aborted"
    assert after_an_abort(ours) == b"committed"


def test_the_mock_creates_no_topics_for_admin_clients_and_our_broker_does(mock: str, ours: str) -> None:
    with pytest.raises(KafkaException):
        create_topic(mock)
    create_topic(ours)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_both_have_groups_of_both_protocols(protocol: str, mock: str, ours: str) -> None:
    assert read_by_a_group(mock, protocol) == b"1"
    assert read_by_a_group(ours, protocol) == b"1"
