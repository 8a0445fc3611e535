"""Group consumers of stock clients, each member in a process: rebalances while they consume, dead members, broker restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from testing.clients.groups import CLIENTS, Group, Member
from testing.clients.stock import create_topic, unique
from testing.process.broker import BrokerProcess
from testing.waiting import until

PARTITIONS = 4

pytestmark = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture
def new_group(tmp_path: Path) -> Iterator[Callable[..., Group]]:
    groups: list[Group] = []

    def create(client: str, bootstrap: str, topic: str) -> Group:
        groups.append(Group(client, bootstrap, unique("group"), topic, tmp_path))
        return groups[-1]

    yield create
    for group in groups:
        group.close()


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"value", partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def share(*members: object) -> bool:
    """Return whether the members own all partitions, each member some, and no partition twice."""
    owned = [member.owned for member in members]  # type: ignore[attr-defined]
    return all(owned) and sum(map(len, owned)) == PARTITIONS and set().union(*owned) == {*range(PARTITIONS)}


def two_that_share(group: Group) -> tuple[Member, Member]:
    """Start two members, and return them when both have partitions."""
    first, second = group.start(), group.start()
    until(lambda: share(first, second), "both have partitions")
    return first, second


def test_members_share_the_partitions_as_they_come_and_go(bootstrap: str, new_group: Callable[..., Group], client: str) -> None:
    topic = unique("share")
    create_topic(bootstrap, topic, PARTITIONS)
    produce(bootstrap, topic, 400)
    group = new_group(client, bootstrap, topic)
    first = group.start()
    until(lambda: group.has_read(400), "the first member reads all")
    second = group.start()
    until(lambda: share(first, second), "both have partitions")
    produce(bootstrap, topic, 400)
    until(lambda: group.has_read(800), "both read")
    assert {event.member for event in group.events if event.what == "read"} == {0, 1}
    first.leave()
    until(lambda: share(second), "the second has all")
    produce(bootstrap, topic, 400)
    until(lambda: group.has_read(1200), "the second reads on")
    second.leave()
    group.check(1200)


def test_a_member_that_crashes_is_replaced(bootstrap: str, new_group: Callable[..., Group], client: str) -> None:
    topic = unique("crash")
    create_topic(bootstrap, topic, PARTITIONS)
    group = new_group(client, bootstrap, topic)
    first, second = two_that_share(group)
    produce(bootstrap, topic, 2000)
    until(lambda: group.has_read(100), "they read")
    first.kill()
    produce(bootstrap, topic, 400)
    until(lambda: group.has_read(2400), "the other one reads everything")
    until(lambda: share(second), "the other one has all partitions")
    second.leave()
    group.check(2400)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_members_continue_after_a_restart_of_the_broker(
    start_broker: Callable[..., BrokerProcess], new_group: Callable[..., Group], client: str, how: str
) -> None:
    broker = start_broker()
    topic = unique("restart")
    create_topic(broker.bootstrap, topic, PARTITIONS)
    group = new_group(client, broker.bootstrap, topic)
    first, second = two_that_share(group)
    produce(broker.bootstrap, topic, 2000)
    until(lambda: group.has_read(100), "they read")
    getattr(broker, how)()
    broker.start()
    produce(broker.bootstrap, topic, 400)
    until(lambda: group.has_read(2400), "they continue")
    first.leave()
    second.leave()
    group.check(2400)


def test_a_static_member_restarts_without_a_rebalance(bootstrap: str, new_group: Callable[..., Group], client: str) -> None:
    topic = unique("static")
    create_topic(bootstrap, topic, PARTITIONS)
    group = new_group(client, bootstrap, topic)
    first, second = group.start("one"), group.start("two")
    until(lambda: share(first, second), "both have partitions")
    had = first.owned
    first.kill()
    changes = len([event for event in second.events if event.what != "read"])
    again = group.start("one")
    until(lambda: again.owned == had, "the same partitions again")
    assert len([event for event in second.events if event.what != "read"]) == changes
