"""Decides which replica leads a partition, and which are in sync, when brokers come and go.

The module is pure: from one image it makes the next states of the partitions that must change. Only partitions with several
replicas are looked at; one with a single replica keeps its leader, live or not.

Rules
    A broker that is away leaves the ISR, but the ISR never becomes empty: while all its members are away, it stays as it is.
    Replicas that leave an ISR with fewer members than `min.insync.replicas` are eligible leaders until it has that many again:
    the high watermark does not move meanwhile, so they have everything below it.
    A broker that starts with a log that may have lost records is neither in the ISR nor eligible, if another replica is, live or
    not: the other one has what this one has lost. A broker that only lost its session, or whose process was killed, has its log,
    and remains in both.
    A partition whose leader is away gets the first replica of the ISR, in the order of the replicas, that is live and not
    stopping; otherwise the first eligible one, which is the ISR then. If there is none, it has no leader, unless the topic allows
    an unclean election: then the first such replica leads, and is the ISR.
    Every change of the leader gives the partition the next leader epoch of the cluster's counter, which no broker can have used;
    `leader_epochs` explains why an epoch of the partition's own would not do. Another ISR alone leaves the leader epoch.

Example
    Replicas 1, 2, 3, ISR 3, 1, leader 1, and two must be in sync. Broker 1 dies: leader 3, ISR 3, eligible 1. Broker 3 dies: no
    leader. Broker 2 comes: no change. Broker 3, which has lost its power, comes: no leader, ISR 1. Broker 1 comes: leader 1.

Source: PartitionChangeBuilder, ReplicationControlManager.generateLeaderAndIsrUpdates; KIP-841, KIP-966. Where Kafka has an empty
ISR and a last known leader, this ISR has its last member.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.metadata.image import NO_LEADER, ClusterImage, PartitionChange, PartitionImage, TopicImage

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.config.broker import BrokerConfig
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

    def after(self, partition: PartitionImage, *, min_isr: int, is_unclean_allowed: bool = False) -> PartitionImage | None:
        """Return the next state of a partition; None if it stays as it is."""
        present, electable = self.among
        if len(partition.replicas) == 1:
            return None
        isr = tuple(one for one in partition.isr if one in present) or partition.isr
        if partition.leader in present and partition.leader in isr:
            return self._changed(partition, partition.leader, isr, eligible_beside(isr, partition, min_isr))
        leader = next((one for one in partition.replicas if one in isr and one in electable), NO_LEADER)
        if leader == NO_LEADER:
            leader = next((one for one in partition.elr if one in electable), NO_LEADER)
            isr = isr if leader == NO_LEADER else (leader,)
        if leader == NO_LEADER and is_unclean_allowed:
            leader = next((one for one in partition.replicas if one in electable), NO_LEADER)
            if leader != NO_LEADER:
                return self._changed(partition, leader, (leader,), ())
        return self._changed(partition, leader, isr, eligible_beside(isr, partition, min_isr))

    def preferred(self, partition: PartitionImage) -> PartitionImage | None:
        """Return the state in which the first replica leads; None if it leads already, or cannot lead."""
        first = partition.replicas[0]
        if partition.leader == first or first not in partition.isr or first not in self.among.electable:
            return None
        return self._changed(partition, first, partition.isr, partition.elr)

    def aside(self, partition: PartitionImage, broker_id: BrokerId, *, min_isr: int, is_complete: bool) -> PartitionImage | None:
        """Return the state in which a broker that joins does not lead and, if its log is not complete, is neither in the ISR nor
        eligible beside others; None for no change. Which brokers are live plays no part: this broker may not know it yet.
        """
        if len(partition.replicas) == 1:
            return None
        leader = NO_LEADER if partition.leader == broker_id else partition.leader
        isr = tuple(one for one in partition.isr if one != broker_id)
        elr = tuple(one for one in partition.elr if one != broker_id)
        if is_complete or not (isr or elr):
            return self._changed(partition, leader, partition.isr, partition.elr)
        isr = isr or elr
        return self._changed(partition, leader, isr, eligible_beside(isr, replace(partition, isr=isr, elr=elr), min_isr))

    def _changed(
        self, partition: PartitionImage, leader: BrokerId, isr: tuple[BrokerId, ...], elr: tuple[BrokerId, ...]
    ) -> PartitionImage | None:
        is_same = leader == partition.leader
        if is_same and isr == partition.isr and elr == partition.elr:
            return None
        return replace(
            partition,
            leader=leader,
            leader_epoch=partition.leader_epoch if is_same else self.epoch,
            isr=isr,
            elr=elr,
            partition_epoch=partition.partition_epoch + 1,
        )


def eligible_beside(isr: tuple[BrokerId, ...], before: PartitionImage, min_isr: int) -> tuple[BrokerId, ...]:
    """Return the eligible leaders beside a new ISR: if that is too small, those that were in the ISR or eligible before."""
    if len(isr) >= min(min_isr, len(before.replicas)):
        return ()
    return tuple(one for one in before.replicas if one not in isr and (one in before.isr or one in before.elr))


def min_isr_of(topic: TopicImage, config: BrokerConfig) -> int:
    """Return min.insync.replicas of a topic."""
    text = topic.configs.get("min.insync.replicas")
    return config.min_insync_replicas if text is None else int(text)


def plan_of_all(
    topics: Iterable[TopicImage], after: Callable[[TopicImage, int], PartitionImage | None]
) -> Pausing[list[PartitionChange]]:
    """Make the changes of all partitions with several replicas for which `after`, a function of a topic and the number of a
    partition, returns another state.
    """
    changes: list[PartitionChange] = []
    count = 0
    for topic in topics:
        if len(topic.partitions[0].replicas) > 1:
            for number in range(len(topic.partitions)):
                changed = after(topic, number)
                if changed is not None:
                    changes.append(PartitionChange(topic.topic_id, number, changed))
                count += 1
                if count % AT_ONCE == 0:
                    yield
    return changes


def plan_of_named(
    image: ClusterImage,
    partitions: Iterable[TopicPartition],
    after: Callable[[TopicImage, int], PartitionImage | None],
) -> Pausing[list[PartitionChange]]:
    """Make the changes of the named partitions, as `plan_of_all` does; one that does not exist is left out."""
    changes = []
    for topic_partition in partitions:
        if image.has_partition(topic_partition):
            topic = image.topics[topic_partition.topic]
            changed = after(topic, topic_partition.partition)
            if changed is not None:
                changes.append(PartitionChange(topic.topic_id, topic_partition.partition, changed))
        yield
    return changes
