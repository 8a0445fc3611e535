"""The internal topic of a coordinator: which broker leads each partition, and which partitions this broker begins to lead or no
longer leads.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pybroker.model import BrokerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ImageDelta
    from pybroker.model import LeaderEpoch
    from pybroker.replication.partition import Partition
    from pybroker.replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

REMIND_S: Final = 60.0
"""The time after which the same reason is a line again."""


class CoordinatorTopic:
    """The topic whose partitions hold the shards of a coordinator. It may be missing, because no client has needed it yet."""

    def __init__(self, name: str, controller: Controller, replicas: ReplicaManager) -> None:
        self._name = name
        self._controller = controller
        self._replicas = replicas
        self._reported, self._reported_s = "", -math.inf

    @property
    def is_missing(self) -> bool:
        """Whether the topic does not exist."""
        return self._name not in self._controller.image.topics

    @property
    def partition_count(self) -> int:
        """The number of partitions, 0 if the topic is missing."""
        topic = self._controller.image.topics.get(self._name)
        return 0 if topic is None else len(topic.partitions)

    async def create(self) -> ErrorCode:
        """Create the topic if it is missing."""
        outcomes = await self._controller.create_missing_topics([self._name])
        error = outcomes[self._name].error
        if error is not None:
            self._report(error.message)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE

    def _report(self, reason: str) -> None:
        """Log why the topic cannot be created. Clients ask again and again, so the same reason is a line once in a while."""
        now_s = asyncio.get_running_loop().time()
        if reason != self._reported or now_s >= self._reported_s + REMIND_S:
            self._reported, self._reported_s = reason, now_s
            logger.warning("%s cannot be created: %s; clients get COORDINATOR_NOT_AVAILABLE", self._name, reason)

    def leader_of(self, partition: Callable[[int], int]) -> BrokerId | None:
        """Return the leader of the partition that `partition` returns for the number of partitions, or None while that partition
        has no leader or the topic is missing.
        """
        topic = self._controller.image.topics.get(self._name)
        if topic is None:
            return None
        leader = topic.partitions[partition(len(topic.partitions))].leader
        return leader if leader >= 0 else None

    def follow_change(
        self,
        delta: ImageDelta,
        loaded: Callable[[], Mapping[int, LeaderEpoch]],
        load: Callable[[int, Partition], object],
        unload: Callable[[int], object],
    ) -> Iterator[None]:
        """Unload the shards of a topic that was deleted. Return the rest, which follows the change of the cluster as
        `follow_leadership` does, if the change is about the topic.

        The rest comes after the rest of the replica manager, which makes replicas followers and leaders. A topic that was deleted
        has other logs when it is there again, maybe by the same change, so all is unloaded first.
        """
        if any(topic.name == self._name for topic in delta.removed):
            for number in loaded():
                unload(number)
        is_concerned = any(
            topic.name == self._name for topic in (*delta.added, *delta.removed, *(topic for _, topic in delta.changed))
        )
        return self._follow_later(loaded, load, unload) if is_concerned else iter(())

    def _follow_later(
        self,
        loaded: Callable[[], Mapping[int, LeaderEpoch]],
        load: Callable[[int, Partition], object],
        unload: Callable[[int], object],
    ) -> Iterator[None]:
        self.follow_leadership(loaded(), load, unload)
        yield

    def follow_leadership(
        self, loaded: Mapping[int, LeaderEpoch], load: Callable[[int, Partition], object], unload: Callable[[int], object]
    ) -> None:
        """Unload the partitions that this broker leads no longer, or under another leader epoch than the one of their shard.
        Then load those that it leads and that are not `loaded`.

        Under another epoch another broker may have led in between, which the change need not show.
        """
        led: dict[int, Partition] = {}
        for number in range(self.partition_count):
            replica = self._replicas.partition(TopicPartition(self._name, number))
            if not isinstance(replica, ErrorCode) and replica.is_leader:
                led[number] = replica
        kept = {number for number, epoch in loaded.items() if number in led and led[number].leader_epoch == epoch}
        for number in loaded.keys() - kept:
            unload(number)
        for number, replica in led.items():
            if number not in kept:
                load(number, replica)
