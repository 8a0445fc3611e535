"""Waits until the leaders of new partitions know them, so that none of them refuses a client that produces at once.

Idea
    Every broker follows the metadata store in the order of its commits. So a leader that has the last topic of a request has them
    all, and Metadata of that topic shows it. A broker that is alone has no other leaders, and waits for nothing.

A leader that does not respond holds up the response for WAIT_MS_MAX at most. The partitions exist then all the same, and the
client tries again, as it does with Kafka, which does not wait.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pybroker.metadata.image import NO_LEADER
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pybroker.api.context import Services
    from pybroker.metadata.image import PartitionImage, TopicImage
    from pybroker.model import BrokerId
    from pybroker.replication.peers import Peers

WAIT_MS_MAX: Final = 5_000
PAUSE_S: Final = 0.01
LANE: Final = "new-partitions"


async def leaders_know(broker: Services, topics: Sequence[TopicImage], timeout_ms: int = WAIT_MS_MAX) -> None:
    """Wait until the leaders of these topics have the last of them as it is here, or until `timeout_ms` have passed.

    The topics are in the order in which they were committed.
    """
    peers = broker.peers
    if peers is None or not topics or timeout_ms <= 0:
        return
    leaders = _leaders(partition for topic in topics for partition in topic.partitions) - {broker.controller.broker_id}
    if not leaders:
        return
    tasks = [asyncio.ensure_future(_knows(broker, peers, leader, topics[-1])) for leader in leaders]
    try:
        await asyncio.wait(tasks, timeout=min(timeout_ms, WAIT_MS_MAX) / 1000)
    finally:
        for task in tasks:
            task.cancel()


def _leaders(partitions: Iterable[PartitionImage]) -> set[BrokerId]:
    return {partition.leader for partition in partitions} - {NO_LEADER}


async def _knows(broker: Services, peers: Peers, leader: BrokerId, topic: TopicImage) -> None:
    """Wait until a leader has the topic. One that is not live any more, or a topic that was deleted, is not waited for."""
    controller = broker.controller
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic.name)], allow_auto_topic_creation=False)
    while leader in controller.image.brokers and topic.topic_id in controller.image.topics_by_id:
        response = await _ask(peers, leader, request)
        for one in () if response is None else response.topics:
            if one.topic_id == topic.topic_id and len(one.partitions) >= len(topic.partitions):
                return
        await asyncio.sleep(PAUSE_S)


async def _ask(peers: Peers, broker_id: BrokerId, request: MetadataRequest) -> Any | None:
    done: asyncio.Future[Any | None] = asyncio.get_running_loop().create_future()
    peers.send(broker_id, request, partial(_settle, done), lane=LANE, timeout_ms=WAIT_MS_MAX)
    return await done


def _settle(done: asyncio.Future[Any | None], response: Any | None) -> None:
    if not done.done():  # done: the wait is over
        done.set_result(response)
