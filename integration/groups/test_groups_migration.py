"""Groups of stock clients move from the classic to the consumer protocol (KIP-848) and back while they consume."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import AdminClient

from integration.groups.test_groups_clients import PARTITIONS, produce, share
from integration.groups.test_groups_consumer_protocol import QUICK
from testing.clients.groups import Group, Member
from testing.clients.stock import create_topic, unique
from testing.process.broker import BrokerProcess
from testing.waiting import until

HAS_JAVA = shutil.which("java") is not None and shutil.which("mvn") is not None
ROUND = 400
PAIRS = [
    ("confluent-kafka-range", "confluent-kafka-consumer"),
    ("confluent-kafka", "confluent-kafka-consumer"),
    ("kafka-python", "confluent-kafka-consumer"),
    ("aiokafka", "confluent-kafka-consumer"),
    pytest.param("java-classic", "java-consumer", marks=pytest.mark.skipif(not HAS_JAVA, reason="needs Java")),
]


class Rolling:
    """A group whose members are replaced one by one. After every change all partitions are read, and each member reads some."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.topic, name = unique("rolling"), unique("rolling-group")
        create_topic(bootstrap, self.topic, PARTITIONS)
        self.group = Group("", bootstrap, name, self.topic, folder)
        self.count = 0
        self._name, self._bootstrap = name, bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._living: list[Member] = []

    def start(self, client: str, instance: str | None = None) -> None:
        self._living.append(self.group.start(instance, client))
        self._settle(f"{client} comes")

    def replace(self, number: int, client: str, instance: str | None = None) -> None:
        self._living[number].leave()
        self._living[number] = self.group.start(instance, client)
        self._settle(f"member {number} comes as {client}")

    def replace_by_two(self, number: int, client: str) -> None:
        """Start the new member before the old one leaves."""
        old = self._living[number]
        self._living[number] = self.group.start(None, client)
        until(lambda: bool(self._living[number].owned), f"{client} has a share")
        old.leave()
        self._settle(f"{client} is there for member {number}")

    def leave(self, number: int) -> None:
        self._living.pop(number).leave()
        self._settle(f"member {number} is gone")

    def _settle(self, what: str) -> None:
        until(lambda: share(*self._living), f"{what}: {[member.owned for member in self._living]}")
        produce(self._bootstrap, self.topic, ROUND)
        self.count += ROUND
        until(lambda: self.group.has_read(self.count), f"{what}: all is read")

    @property
    def kind(self) -> ConsumerGroupType:
        listed = self._admin.list_consumer_groups().result(30).valid
        return next(group.type for group in listed if group.group_id == self._name)


@pytest.fixture
def rolling(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> Iterator[Rolling]:
    made = Rolling(start_broker(QUICK).bootstrap, tmp_path)
    yield made
    made.group.close()


@pytest.mark.parametrize(("classic", "consumer"), PAIRS)
def test_members_roll_over_and_back(rolling: Rolling, classic: str, consumer: str) -> None:
    rolling.start(classic)
    rolling.start(classic)
    assert rolling.kind is ConsumerGroupType.CLASSIC
    rolling.replace(0, consumer)
    assert rolling.kind is ConsumerGroupType.CONSUMER
    rolling.replace(1, consumer)
    rolling.replace(0, classic)
    assert rolling.kind is ConsumerGroupType.CONSUMER
    rolling.replace_by_two(1, classic)
    assert rolling.kind is ConsumerGroupType.CLASSIC
    rolling.leave(0)
    rolling.group.check(rolling.count)


def test_static_members_roll_over_and_back(rolling: Rolling) -> None:
    classic, consumer = "confluent-kafka-range", "confluent-kafka-consumer"
    rolling.start(classic, "i0")
    rolling.start(classic, "i1")
    rolling.replace(0, consumer, "i0")
    assert rolling.kind is ConsumerGroupType.CONSUMER
    rolling.replace(1, consumer, "i1")
    rolling.replace(1, classic, "i1")
    rolling.replace(0, classic, "i0")
    assert rolling.kind is ConsumerGroupType.CLASSIC
    rolling.group.check(rolling.count)


@pytest.mark.skipif(not HAS_JAVA, reason="needs Java, and Maven for the jars")
def test_members_of_many_clients_share_a_group(rolling: Rolling) -> None:
    rolling.start("kafka-python")
    rolling.start("java-classic")
    rolling.start("confluent-kafka-consumer")
    assert rolling.kind is ConsumerGroupType.CONSUMER
    rolling.replace(1, "java-consumer")
    rolling.start("aiokafka")
    rolling.leave(2)
    rolling.leave(1)
    assert rolling.kind is ConsumerGroupType.CLASSIC
    rolling.group.check(rolling.count)
