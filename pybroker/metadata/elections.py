"""Decides which replica leads a partition, and which are in sync, when brokers come and go.

The module is pure: from one image it makes the next states of the partitions that must change. Only partitions with several
replicas are looked at; one with a single replica keeps its leader, live or not.

Rules
    A broker that is away leaves the ISR, but the ISR never becomes empty: while all its members are away, it stays as it is.
    A broker that starts leaves each ISR that has another member, live or not, and takes no other one out: the other may only
    have lost its session, and still has what this one has lost with its power. So of members that were all away, the last one
    that comes back leads. A broker that only lost its session has its log, and stays in the ISRs.
    A partition whose leader is away gets the first replica of the ISR, in the order of the replicas, that is live and not
    stopping. If there is none, it has no leader, unless the topic allows an unclean election: then the first such replica leads,
    and is the ISR.
    Every change of the leader gives the partition the next leader epoch of the cluster's counter, which no broker can have used;
    `leader_epochs` explains why an epoch of the partition's own would not do. Another ISR alone leaves the leader epoch.

Example
    Replicas 1, 2, 3, ISR 3, 1, leader 1. Broker 1 dies: leader 3, ISR 3. Broker 3 dies: no leader, ISR 3. Broker 2 comes: no
    change. Broker 3 comes: leader 3, ISR 3.

Source: PartitionChangeBuilder, ReplicationControlManager.generateLeaderAndIsrUpdates; KIP-841, KIP-966 (unclean shutdowns).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.metadata.image import NO_LEADER, ClusterImage, PartitionChange, PartitionImage, TopicImage

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.model import BrokerId, LeaderEpoch, TopicPartition
    from pybroker.sharing.work import Pausing

AT_ONCE: Final = 500
"""Partitions that are looked at between two yields."""


class Candidates(NamedTuple):
    """The brokers that are there, and those of them that can become leaders."""

    present: frozenset[BrokerId]
    electable: frozenset[BrokerId]


def candidates(image: ClusterImage, gone: Collection[BrokerId] = ()) -> Candidates:
    """Return the live brokers without those that count as `gone`."""
    present = frozenset(image.brokers).difference(gone)
    return Candidates(present, frozenset(one for one in present if not image.brokers[one].is_stopping))


@dataclass(slots=True, frozen=True)
class Election:
    """Decides about the next state of a partition by the brokers that are there. A new leader gets `epoch`."""

    among: Candidates
    epoch: LeaderEpoch

    def after(self, partition: PartitionImage, *, is_unclean_allowed: bool = False) -> PartitionImage | None:
        """Return the next state of a partition; None if it stays as it is."""
        present, electable = self.among
        if len(partition.replicas) == 1:
            return None
        isr = tuple(one for one in partition.isr if one in present) or partition.isr
        if partition.leader in present and partition.leader in isr:
            return self._changed(partition, partition.leader, isr)
        leader = next((one for one in partition.replicas if one in isr and one in electable), NO_LEADER)
        if leader == NO_LEADER and is_unclean_allowed:
            leader = next((one for one in partition.replicas if one in electable), NO_LEADER)
            isr = isr if leader == NO_LEADER else (leader,)
        return self._changed(partition, leader, isr)

    def preferred(self, partition: PartitionImage) -> PartitionImage | None:
        """Return the state in which the first replica leads; None if it leads already, or cannot lead."""
        first = partition.replicas[0]
        if partition.leader == first or first not in partition.isr or first not in self.among.electable:
            return None
        return self._changed(partition, first, partition.isr)

    def aside(self, partition: PartitionImage, broker_id: BrokerId, *, is_start: bool) -> PartitionImage | None:
        """Return the state in which a broker that joins does not lead, and at its start is in no ISR beside others; None for no
        change. Which brokers are live plays no part: this broker may not know it yet.
        """
        if len(partition.replicas) == 1:
            return None
        others = tuple(one for one in partition.isr if one != broker_id)
        leader = NO_LEADER if partition.leader == broker_id else partition.leader
        return self._changed(partition, leader, others if is_start and others else partition.isr)

    def _changed(self, partition: PartitionImage, leader: BrokerId, isr: tuple[BrokerId, ...]) -> PartitionImage | None:
        is_same = leader == partition.leader
        if is_same and isr == partition.isr:
            return None
        return replace(
            partition,
            leader=leader,
            leader_epoch=partition.leader_epoch if is_same else self.epoch,
            isr=isr,
            partition_epoch=partition.partition_epoch + 1,
        )


def plan_of_all(
    topics: Iterable[TopicImage], after: Callable[[TopicImage, PartitionImage], PartitionImage | None]
) -> Pausing[list[PartitionChange]]:
    """Make the changes of all partitions with several replicas for which `after` returns another state."""
    changes: list[PartitionChange] = []
    count = 0
    for topic in topics:
        if len(topic.partitions[0].replicas) > 1:
            for number, partition in enumerate(topic.partitions):
                changed = after(topic, partition)
                if changed is not None:
                    changes.append(PartitionChange(topic.topic_id, number, changed))
                count += 1
                if count % AT_ONCE == 0:
                    yield
    return changes


def plan_of_named(
    image: ClusterImage,
    partitions: Iterable[TopicPartition],
    after: Callable[[PartitionImage], PartitionImage | None],
) -> Pausing[list[PartitionChange]]:
    """Make the changes of the named partitions for which `after` returns another state; one that does not exist is left out."""
    changes = []
    for topic_partition in partitions:
        if image.has_partition(topic_partition):
            topic = image.topics[topic_partition.topic]
            changed = after(topic.partitions[topic_partition.partition])
            if changed is not None:
                changes.append(PartitionChange(topic.topic_id, topic_partition.partition, changed))
        yield
    return changes
