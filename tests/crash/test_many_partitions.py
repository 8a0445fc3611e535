"""Creating, growing and deleting topics of many partitions, when each step in turn is the last: all or nothing is there."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import pytest

from pybroker.metadata.more_partitions import MorePartitions
from pybroker.metadata.new_topic import NewTopic
from testing.simulation.broker import World
from tests.crash.test_last_steps import DIRECTORIES, Machine, config, each_last_step, filled, started

if TYPE_CHECKING:
    from pybroker.broker.broker_server import BrokerServer
    from testing.simulation.disk import SimulatedDisk
    from testing.simulation.store import StoreContents

COUNT = 3
ORDERS = 3


def create(broker: BrokerServer) -> Coroutine[Any, Any, object]:
    return broker.controller.create_topics([NewTopic(name="new", partition_count=COUNT, replication_factor=1, configs={})])


def grow(broker: BrokerServer) -> Coroutine[Any, Any, object]:
    return broker.controller.create_partitions([MorePartitions(name="orders", count=ORDERS + COUNT)])


def delete(broker: BrokerServer) -> Coroutine[Any, Any, object]:
    return broker.controller.delete_topics([broker.controller.image.topics["orders"].topic_id])


def during(operation: Callable[[BrokerServer], Coroutine[Any, Any, object]]) -> Callable[[SimulatedDisk, StoreContents], None]:
    """Return what runs the operation in a broker that is killed when the operation has ended."""

    def work(disk: SimulatedDisk, contents: StoreContents) -> None:
        on_operation, disk.on_operation, contents.on_operation = disk.on_operation, None, None
        with World(seed=3, disk=disk, contents=contents).process(config()) as process:
            process.run(process.broker.start())
            disk.on_operation = contents.on_operation = on_operation
            process.run(operation(process.broker))
            disk.on_operation = contents.on_operation = None

    return work


def directories(disk: SimulatedDisk, topic: str) -> int:
    """Return how many directories have the name of a partition of the topic, or such a name with an ending."""
    return sum(entry.name.startswith(f"{topic}-") for path in DIRECTORIES for entry in disk.list(path))


@pytest.mark.parametrize(
    ("operation", "topic", "before", "after"),
    [(create, "new", 0, COUNT), (grow, "orders", ORDERS, ORDERS + COUNT), (delete, "orders", ORDERS, 0)],
)
def test_an_operation_on_many_partitions_can_end_at_each_step(
    operation: Callable[[BrokerServer], Coroutine[Any, Any, object]], topic: str, before: int, after: int
) -> None:
    machine: Machine = filled()
    counts = set()
    is_after = False
    for what, (disk, contents) in each_last_step(machine, during(operation)):
        topics, ends = started((disk, contents))
        count = sum(name.rpartition("-")[0] == topic for name in ends)
        assert count in (before, after), what
        assert (topic in topics) == (count > 0), what
        if " before " in what and what.startswith("a kill"):
            assert is_after <= (count == after), f"{what}: an operation that was there is gone"
            is_after = count == after
        counts.add(count)
        if not before and count == before:
            assert not directories(disk, topic), f"{what}: what is invisible leaves no directory behind"
    assert counts == {before, after}
