"""The response to a topic's creation comes when the other brokers that lead its partitions know them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pybroker.api import new_partitions
from pybroker.api.handlers import create_partitions, create_topics, metadata
from pybroker.metadata.members import BrokerRegistration, Endpoint
from pybroker.model import BrokerId
from pybroker.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pybroker.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from pybroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from testing.scenes.api.cluster import ClusterScene

LONG_MS = 60_000


class OtherBrokers:
    """Brokers that know of each topic what the test has let them know. One that is `silent` never responds."""

    def __init__(self, scene: ClusterScene) -> None:
        self._scene = scene
        self.asked: list[tuple[int, str]] = []
        self.known: dict[int, dict[str, int]] = {2: {}, 3: {}}
        self.silent: set[int] = set()
        self.next_asked = asyncio.Event()

    def send(
        self, broker_id: BrokerId, request: Any, done: Callable[[Any], object], *, lane: str = "", timeout_ms: int = 0
    ) -> None:
        del lane, timeout_ms
        assert not request.allow_auto_topic_creation
        (topic,) = request.topics
        self.asked.append((broker_id, topic.name))
        self.next_asked.set()
        if broker_id not in self.silent:
            asyncio.get_running_loop().call_soon(done, self._metadata(broker_id, topic.name))

    def close(self) -> None:
        """Do nothing."""

    def _metadata(self, broker_id: int, name: str) -> MetadataResponse:
        count = self.known[broker_id].get(name)
        if count is None:
            return MetadataResponse(topics=[MetadataResponseTopic(error_code=3, name=name)])
        partitions = [MetadataResponsePartition(partition_index=index) for index in range(count)]
        topic_id = self._scene.controller.image.topics[name].topic_id
        return MetadataResponse(topics=[MetadataResponseTopic(name=name, topic_id=topic_id, partitions=partitions)])


async def three_brokers() -> tuple[ClusterScene, OtherBrokers]:
    others = [BrokerRegistration(broker_id=BrokerId(n), endpoints={"PLAINTEXT": Endpoint("b", n)}) for n in (2, 3)]
    scene = await ClusterScene(num_partitions=3).start(*others)
    brokers = OtherBrokers(scene)
    scene.broker.peers = brokers
    return scene, brokers


def on(name: str, *leaders: int) -> CreatableTopic:
    """Return a topic whose partitions have these leaders."""
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=[one]) for index, one in enumerate(leaders)]
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)


async def created(scene: ClusterScene, *topics: CreatableTopic, timeout_ms: int = LONG_MS, **fields: Any) -> list[int]:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, **fields)
    return [one.error_code for one in (await scene.ask(create_topics.handle, 7, request)).topics]


async def test_creation_waits_until_each_leader_knows_the_topic() -> None:
    scene, others = await three_brokers()
    task = asyncio.ensure_future(created(scene, on("t", 2, 3)))
    others.known[3]["t"] = 2
    while others.asked.count((2, "t")) < 2:
        await asyncio.sleep(0)
        assert not task.done(), "broker 2 does not know the topic"
        others.next_asked.clear()
        await others.next_asked.wait()
    others.known[2]["t"] = 2
    assert await task == [0]
    assert others.asked.count((3, "t")) == 1


async def test_one_question_to_each_leader_is_enough_for_many_topics() -> None:
    scene, others = await three_brokers()
    others.known[2]["last"] = 1
    assert await created(scene, on("first", 2), on("middle", 1), on("last", 1)) == [0, 0, 0]
    assert others.asked == [(2, "last")]


async def test_leaders_that_are_not_asked() -> None:
    scene, others = await three_brokers()
    assert await created(scene, on("own", 1)) == [0]
    assert await created(scene, on("untimed", 2), timeout_ms=0) == [0]
    assert await created(scene, on("validated", 2), validate_only=True) == [0]
    assert await created(scene, on("own", 2)) == [36]
    assert others.asked == []


async def test_a_leader_that_does_not_respond_holds_a_response_up_for_the_time_of_the_request_at_most() -> None:
    scene, others = await three_brokers()
    others.silent = {2}
    assert await asyncio.wait_for(created(scene, on("t", 2), timeout_ms=20), 30) == [0]
    assert others.asked == [(2, "t")]


async def test_a_request_with_much_time_does_not_wait_for_a_silent_leader_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_partitions, "WAIT_MS_MAX", 20)
    scene, others = await three_brokers()
    others.silent = {2}
    assert await asyncio.wait_for(created(scene, on("t", 2), timeout_ms=LONG_MS), 30) == [0]


async def test_a_leader_that_is_gone_and_a_topic_that_was_deleted_are_not_waited_for() -> None:
    scene, others = await three_brokers()
    task = asyncio.ensure_future(created(scene, on("t", 2)))
    await others.next_asked.wait()
    await scene.controller.delete_topics([scene.controller.image.topics["t"].topic_id])
    assert await asyncio.wait_for(task, 30) == [0]
    others.next_asked.clear()
    task = asyncio.ensure_future(created(scene, on("u", 2)))
    await others.next_asked.wait()
    await scene.controller.commit(deletes=["sessions/2"])
    assert await asyncio.wait_for(task, 30) == [0]


async def test_new_partitions_are_known_when_a_leader_has_their_number() -> None:
    scene, others = await three_brokers()
    others.known[2]["t"] = 1
    assert await created(scene, on("t", 2)) == [0]
    others.asked.clear()
    more = CreatePartitionsTopic(name="t", count=2, assignments=[CreatePartitionsAssignment(broker_ids=[3])])
    request = CreatePartitionsRequest(topics=[more], timeout_ms=LONG_MS)
    task = asyncio.ensure_future(scene.ask(create_partitions.handle, 3, request))
    others.known[2]["t"] = 2
    while others.asked.count((3, "t")) < 2:
        others.next_asked.clear()
        await others.next_asked.wait()
    assert not task.done()
    others.known[3]["t"] = 2
    assert [one.error_code for one in (await task).results] == [0]


async def test_a_topic_that_metadata_creates_is_known_to_its_leaders() -> None:
    scene, others = await three_brokers()
    for broker in (2, 3):
        others.known[broker]["auto"] = 3
    response = await scene.ask(metadata.handle, 12, MetadataRequest(topics=[MetadataRequestTopic(name="auto")]))
    (topic,) = response.topics
    leaders = {one.leader_id for one in topic.partitions}
    assert topic.error_code == 0
    assert sorted(others.asked) == [(leader, "auto") for leader in sorted(leaders - {1})]
