"""Brokers of a cluster that a test has only as entries of the store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pybroker.metadata.entries import encode_partition, partition_key
from pybroker.metadata.member_entries import encode_session, session_key
from pybroker.metadata.members import BrokerSession
from pybroker.metadata.store.base import Conflict
from pybroker.model import BrokerId, LeaderEpoch

if TYPE_CHECKING:
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.members import BrokerRegistration
    from pybroker.model import TopicPartition


async def add_live_broker(controller: Controller, registration: BrokerRegistration) -> None:
    """Register a broker, and make it live until the test ends."""
    await controller.register_broker(registration)
    life = BrokerSession(directory=f"directory-{registration.broker_id}", host="test", started_ms=0)
    await controller.commit(puts={session_key(registration.broker_id): encode_session(life)})


async def elect(controller: Controller, where: TopicPartition, leader: int) -> None:
    """Let the cluster decide that a broker leads the partition from now on, in a new epoch. The broker of the controller remains
    a replica.
    """
    topic = controller.image.topics[where.topic]
    before = topic.partitions[where.partition]
    after = replace(
        before,
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(before.leader_epoch + 1),
        partition_epoch=before.partition_epoch + 1,
        replicas=tuple(sorted({controller.broker_id, BrokerId(leader)})),
        isr=(BrokerId(leader),),
    )
    key = partition_key(topic.topic_id, where.partition)
    outcome = await controller.commit(puts={key: encode_partition(after)}, compare={key: before.revision})
    assert not isinstance(outcome, Conflict)
