"""Leader epochs: one counter of the cluster that only grows, and for each broker the least epoch of all that it leads.

Why
    Clients tell by the leader epoch whether the records that they have read are still what the log has (KIP-101, KIP-320). After
    a stop that may have cost records the same epoch must not be given to others: a client at offset 1000 of a log that came back
    with 500 records would go on in silence with what is written there next.

Idea
    Kafka counts up in each partition's registration when its leader changes. Here the counter is one for all, and a
    broker that starts after such a stop takes its next value as the floor of everything that it leads: two small entries in one
    commit, whatever the number of partitions. The epoch of a partition is the larger of what its topic's entry says and its
    leader's floor; it is computed where the image is made, so nobody can see the one without the other. New topics and partitions
    begin at the counter, so a topic that is made again never has a smaller epoch than the one of that name before it.

Example
    Counter 0, topic a has epoch 0. A raise: counter 1, floor of broker 1 is 1, a has 1. Topic b is made, with 1. Another raise,
    above 7, which a log was found to have: counter 8, a and b have 8.

Source: PartitionRegistration.merge, ReplicationControlManager.handleBrokerUnfenced, generateLeaderAndIsrUpdates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pybroker.metadata.image import TopicImage

EPOCH_MAX: Final = (1 << 31) - 1


@dataclass(slots=True, frozen=True, kw_only=True)
class LeaderEpochs:
    """The counter, which is the largest epoch that was ever given, the revision of its entry, and the floors by broker id."""

    counter: int = 0
    revision: int = 0
    floors: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))

    def counted(self, counter: int, *, revision: int) -> LeaderEpochs:
        """After the counter's entry was put; a smaller number in it changes nothing."""
        return replace(self, counter=max(self.counter, counter), revision=revision)

    def with_floor(self, broker_id: int, *, floor: int) -> LeaderEpochs:
        """After a broker's entry was put; as above. The counter is never below a floor."""
        floors = {**self.floors, broker_id: max(self.floors.get(broker_id, 0), floor)}
        return replace(self, counter=max(self.counter, floor), floors=MappingProxyType(floors))

    def next_after(self, above: int) -> int:
        """The value that the counter takes to be above `above` too; EPOCH_MAX at most, which a protocol's int32 can hold."""
        return min(max(self.counter, above) + 1, EPOCH_MAX)

    def raised(self, topic: TopicImage) -> TopicImage:
        """`topic` with no epoch below its leader's floor; the same object where that is so already."""
        floors = self.floors
        if not floors or all(one.leader_epoch >= floors.get(one.leader, 0) for one in topic.partitions):
            return topic
        partitions = tuple(
            replace(one, leader_epoch=floor) if one.leader_epoch < (floor := floors.get(one.leader, 0)) else one
            for one in topic.partitions
        )
        return replace(topic, partitions=partitions)


NO_LEADER_EPOCHS: Final = LeaderEpochs()
"""Of a new store."""
