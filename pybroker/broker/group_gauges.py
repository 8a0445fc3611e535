"""Reads the groups for the metrics: members, state, committed offsets and lag, in the thread that makes the page.

Dictionaries are copied as a whole before they are walked, because the loop may change them meanwhile. No copy is larger than
the groups of a partition of `__consumer_offsets`, or the offsets that one group has committed in one topic.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pybroker.metrics.broker_metrics import CommittedReading, GroupReading
from pybroker.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pybroker.coordinator.service import GroupCoordinator
    from pybroker.coordinator.state.classic_group import ClassicGroup
    from pybroker.coordinator.state.consumer_group import ConsumerGroup
    from pybroker.coordinator.state.shard import TopicOffsets
    from pybroker.metrics.broker_metrics import BrokerMetrics
    from pybroker.replication.replica_manager import ReplicaManager


def register_groups(metrics: BrokerMetrics, coordinator: Callable[[], GroupCoordinator | None], replicas: ReplicaManager) -> None:
    """Register the groups; `coordinator` returns None while there is none."""
    metrics.groups = lambda: _groups(coordinator(), replicas)


def _groups(coordinator: GroupCoordinator | None, replicas: ReplicaManager) -> Iterator[GroupReading]:
    if coordinator is None:
        return
    for shard in coordinator.runtime.shards:
        groups: list[ClassicGroup | ConsumerGroup] = [*shard.classic_groups.values(), *shard.consumer_groups.values()]
        for group in groups:
            topics = shard.offsets.get(group.group_id, {})
            yield GroupReading(
                group_id=group.group_id,
                protocol=group.type.value,
                state=group.state_name,
                member_count=len(group.members),
                offset_count=sum(len(partitions) for partitions in tuple(topics.values())),
                read_offsets=partial(_offsets, topics, replicas),
            )


def _offsets(topics: TopicOffsets, replicas: ReplicaManager) -> Iterator[CommittedReading]:
    for topic, partitions in tuple(topics.items()):
        for partition, committed in tuple(partitions.items()):
            end = replicas.known_high_watermark(TopicPartition(topic, partition))
            lag = None if end is None else max(end - committed.offset, 0)
            yield CommittedReading(topic, partition, committed.offset, lag)
