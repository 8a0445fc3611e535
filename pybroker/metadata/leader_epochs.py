"""Leader epochs: one counter of the cluster that only grows, and for each broker the least epoch of all that it leads.

Why
    By the leader epoch a client knows whether the log still has the records that the client has read (KIP-101, KIP-320). After a
    stop that may have lost records, the same epoch must not be used for other records. Otherwise a client at offset 1000 of a
    log that now ends at offset 500 would silently continue with the records that are written there next.

Idea
    Kafka counts up in each partition's registration when its leader changes. Here one counter serves all partitions,
    and a broker that starts after such a stop takes the counter's next value as the floor of everything that it
    leads: two small entries in one commit, whatever the number of partitions. The epoch of a partition is the larger
    of its topic's entry and its leader's floor. It is computed where the image is made, so no reader can see one
    without the other. New topics and partitions begin at the counter, so a topic that is created again never has a
    smaller epoch than its predecessor of that name.

Example
    The counter is 0, and topic a has epoch 0. A raise makes the counter 1 and the floor of broker 1 1, so a has 1.
    Topic b is created, with 1. Another raise, above 7, which a log was found to have, makes the counter 8, so a and b
    have 8.

Source: PartitionRegistration.merge, ReplicationControlManager.handleBrokerUnfenced, generateLeaderAndIsrUpdates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pybroker.model import BrokerId, LeaderEpoch

if TYPE_CHECKING:
    from pybroker.metadata.image import TopicImage

FIRST_EPOCH: Final = LeaderEpoch(0)
EPOCH_MAX: Final = LeaderEpoch((1 << 31) - 1)


@dataclass(slots=True, frozen=True, kw_only=True)
class LeaderEpochs:
    """The counter, which is the largest epoch that was ever given, the revision of its entry, and the floors by broker id."""

    counter: LeaderEpoch = FIRST_EPOCH
    revision: int = 0
    floors: Mapping[BrokerId, LeaderEpoch] = field(default_factory=lambda: MappingProxyType({}))

    def counted(self, counter: LeaderEpoch, *, revision: int) -> LeaderEpochs:
        """Return the epochs after the counter's entry was put; a smaller number in it changes nothing."""
        return replace(self, counter=max(self.counter, counter), revision=revision)

    def with_floor(self, broker_id: BrokerId, *, floor: LeaderEpoch) -> LeaderEpochs:
        """Return the epochs after a broker's entry was put; a smaller floor changes nothing. The counter is never below
        a floor.
        """
        floors = {**self.floors, broker_id: max(self.floors.get(broker_id, FIRST_EPOCH), floor)}
        return replace(self, counter=max(self.counter, floor), floors=MappingProxyType(floors))

    def next_after(self, above: LeaderEpoch) -> LeaderEpoch:
        """Return the counter's next value, which is above `above` too; at most EPOCH_MAX, which a protocol's int32 can hold."""
        return LeaderEpoch(min(max(self.counter, above) + 1, EPOCH_MAX))

    def raised(self, topic: TopicImage) -> TopicImage:
        """Return `topic` with no epoch below its leader's floor; the same object if that is already so."""
        floors = self.floors
        if not floors or all(one.leader_epoch >= floors.get(one.leader, FIRST_EPOCH) for one in topic.partitions):
            return topic
        partitions = tuple(
            replace(one, leader_epoch=floor) if one.leader_epoch < (floor := floors.get(one.leader, FIRST_EPOCH)) else one
            for one in topic.partitions
        )
        return replace(topic, partitions=partitions)


NO_LEADER_EPOCHS: Final = LeaderEpochs()
"""The epochs of a new store."""
