"""Changes of many partitions stay within what the store takes in one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from pybroker.config.broker import BrokerConfig
from pybroker.metadata.controller import Controller
from pybroker.metadata.image import ClusterImage, PartitionChange
from pybroker.metadata.members import BrokerRegistration, BrokerSession
from pybroker.metadata.membership import go_live
from pybroker.metadata.new_topic import NewTopic
from pybroker.metadata.partition_commits import carry_out
from pybroker.metadata.store.base import Limits
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId, LeaderEpoch

REPLICAS = (BrokerId(2), BrokerId(3), BrokerId(1))
LIMITS = Limits(operations_max=10, bytes_max=1_000_000)


class LimitedStore(MemoryStore):
    async def commit(self, **arguments: Any) -> Any:
        LIMITS.check(arguments.get("puts") or {}, arguments.get("deletes") or (), arguments.get("compare") or ())
        return await super().commit(**arguments)


async def test_commits_have_room_for_brokers_that_join_while_the_changes_are_planned() -> None:
    store, config = LimitedStore(), BrokerConfig()
    controllers = {one: Controller(store, config, broker_id=one) for one in REPLICAS}
    for broker_id, controller in controllers.items():
        await controller.start()
        await controller.register_broker(BrokerRegistration(broker_id=broker_id, endpoints={}))
    one = controllers[REPLICAS[0]]
    await go_live(one, store, BrokerSession(directory="d2", host="here", started_ms=0), config)
    assignments = tuple((number, REPLICAS) for number in range(5))
    for name in ("a", "b", "c"):
        (created,) = await one.create_topics([NewTopic(name=name, assignments=assignments, configs={})])
        assert created.error is None

    async def others_join() -> None:
        for broker_id in REPLICAS[1:]:
            life = BrokerSession(directory=f"d{broker_id}", host="here", started_ms=0)
            await go_live(controllers[broker_id], store, life, config)

    def planned(image: ClusterImage, epoch: LeaderEpoch) -> Generator[Any, None, list[PartitionChange]]:
        if len(image.brokers) == 1:
            yield asyncio.get_running_loop().create_task(others_join())
        return [
            PartitionChange(topic.topic_id, number, replace(before, leader=BrokerId(3), leader_epoch=epoch))
            for topic in image.topics.values()
            for number, before in enumerate(topic.partitions)
            if before.leader != 3
        ]

    assert await carry_out(one, LIMITS.operations_max, planned) == 15
    assert {partition.leader for topic in one.image.topics.values() for partition in topic.partitions} == {3}
    await store.close()
