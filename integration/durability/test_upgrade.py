"""The data of a broker from before brokers were several are used as they are: topics, ids, settings, epochs, records, offsets."""

from __future__ import annotations

import base64
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from pybroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pybroker.protocol.messages.metadata import MetadataRequest
from pybroker.tools.admin import Admin
from pybroker.tools.target import Target
from testing.process.broker import BrokerProcess

OLD = Path(__file__).parent / "golden" / "data-9f165b88.tar.xz"
TIMEOUT_S = 60
IDS = {
    "orders": "Z-XiK2TWSwqXaymVToETWQ",
    "prices": "RuUTtI36QgaW2qh66cVfDQ",
    "__consumer_offsets": "zCmAviIUT829KwaTqsSZVg",
    "__transaction_state": "dWCKmDJGTqa11hBvR_wtXw",
}
TOPIC, BROKER, DYNAMIC_TOPIC, DYNAMIC_BROKER = 2, 4, 1, 2


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path, filter="data")
    found = BrokerProcess(tmp_path)
    try:
        found.start()
        yield found
    finally:
        found.close()


def topics(broker: BrokerProcess) -> dict[str, Any]:
    with Admin(Target(broker.bootstrap, {})) as admin:
        return {topic.name: topic for topic in admin.ask(MetadataRequest(topics=None), 12).topics}


def own_settings(broker: BrokerProcess, kind: int, name: str) -> dict[str, str | None]:
    """Return what is set for a topic or a broker itself."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    with Admin(Target(broker.bootstrap, {})) as admin:
        (found,) = admin.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    source = DYNAMIC_TOPIC if kind == TOPIC else DYNAMIC_BROKER
    return {one.name: one.value for one in found.configs if one.config_source == source}


def read(broker: BrokerProcess, count: int) -> list[int]:
    """Return the numbers of the first committed orders, sorted."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "other", "isolation.level": "read_committed"}
    consumer, numbers = Consumer(settings), list[int]()
    consumer.assign([TopicPartition("orders", number, 0) for number in range(3)])
    while len(numbers) < count and (message := consumer.poll(TIMEOUT_S)) is not None:
        numbers.append(int((message.value() or b"").split()[1]))
    consumer.close()
    return sorted(numbers)


def committed(broker: BrokerProcess) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
    (found,) = consumer.committed([TopicPartition("orders", 0)], timeout=TIMEOUT_S)
    consumer.close()
    return int(found.offset)


def check(broker: BrokerProcess, orders: int) -> None:
    found = topics(broker)
    ids = {name: base64.urlsafe_b64encode(found[name].topic_id).rstrip(b"=").decode() for name in IDS}
    assert ids == IDS
    assert {partition.leader_epoch for name in IDS for partition in found[name].partitions} == {1}
    assert own_settings(broker, BROKER, "1") == {"log.retention.ms": "123456789"}
    assert own_settings(broker, TOPIC, "prices") == {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.25"}
    assert own_settings(broker, TOPIC, "orders") == {"retention.ms": "-1"}
    assert read(broker, orders) == list(range(orders))
    assert committed(broker) == 7


def test_data_of_before_are_there_can_be_changed_and_are_opened_again(broker: BrokerProcess) -> None:
    assert topics(broker).keys() == IDS.keys()
    check(broker, 60)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("new", 2, 1)])["new"].result(TIMEOUT_S)
    admin.create_partitions([NewPartitions("prices", 4)])["prices"].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "shop"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("orders", b"order 60", partition=0)
    producer.commit_transaction(TIMEOUT_S)
    broker.stop()
    broker.start()
    assert {name: len(topic.partitions) for name, topic in topics(broker).items()} == {
        "orders": 3, "prices": 4, "new": 2, "__consumer_offsets": 1, "__transaction_state": 1,
    }  # fmt: skip
    check(broker, 61)
    assert "level=error" not in broker.log_text
