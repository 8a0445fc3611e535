"""Three nodes as Kafka's files configure them, each a broker and a controller with an etcd of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from testing.clients.stock import KafkaPython
from testing.process.broker import BrokerProcess
from testing.process.three_nodes import NUMBERS, ThreeNodes
from testing.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 60


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[ThreeNodes]:
    with ThreeNodes(tmp_path) as started:
        yield started


def is_whole(node: BrokerProcess) -> bool:
    found = AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=TIMEOUT_S)
    return len(found.brokers) == len(NUMBERS) and all(len(one.isrs) == 3 for one in found.topics["t"].partitions.values())


def write(node: BrokerProcess, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "acks": "all", "enable.idempotence": True})
    failed: list[object] = []
    for number in range(first, first + count):
        producer.produce("t", b"%d" % number, partition=0, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(TIMEOUT_S) == 0
    assert not failed


def test_a_node_is_replaced_by_one_without_data_and_then_another_one_dies(nodes: ThreeNodes, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": nodes[1].bootstrap})
    admin.create_topics([NewTopic("t", 1)])["t"].result(TIMEOUT_S)
    write(nodes[1], 0, 100)
    nodes[2].kill()
    nodes[2].data_dir = tmp_path / "replaced"
    nodes[2].start()
    assert "The data of controller 2 are lost: it joins the others as a new member" in nodes[2].log_text
    until(lambda: is_whole(nodes[2]), "the new one has copied the topic", TIMEOUT_S)
    write(nodes[2], 100, 100)
    nodes[1].kill()
    write(nodes[2], 200, 100)
    values = [int(record.sample.value or b"") for record in KafkaPython().consume(nodes[2].bootstrap, "t", 300)]
    assert values == list(range(300))
    nodes[1].start()
    until(lambda: is_whole(nodes[1]), "the killed one is back", TIMEOUT_S)
