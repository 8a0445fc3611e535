"""The partitions that were removed and that transactions of a shard may still have.

A topic that is deleted is noted by its name and its number of partitions, at a cost that does not grow with that number: all
shards note it in the turn in which the topic becomes unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pybroker.model import TopicPartition


class RemovedPartitions:
    """A set of partitions. All of a deleted topic are in it, and those of a topic that is made again with as many."""

    __slots__ = ("_counts", "_single")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}  # the number of partitions of a deleted topic; the most if it was deleted again
        self._single: set[TopicPartition] = set()

    def add_topics(self, counts: Mapping[str, int]) -> None:
        """Add all partitions of topics, by their names and numbers of partitions."""
        for topic, count in counts.items():
            self._counts[topic] = max(count, self._counts.get(topic, 0))

    def add(self, topic_partition: TopicPartition) -> None:
        """Add one partition."""
        self._single.add(topic_partition)

    def clear(self) -> None:
        """Remove all."""
        self._counts = {}
        self._single = set()

    def isdisjoint(self, partitions: Iterable[TopicPartition]) -> bool:
        """Return whether none of `partitions` is in the set."""
        counts, single = self._counts, self._single
        if counts and any(number < counts.get(topic, 0) for topic, number in partitions):
            return False
        return not single or single.isdisjoint(partitions)

    def left_of(self, partitions: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """Return those of `partitions` that are not in the set; about 0.1 us for each."""
        counts = self._counts
        if counts:
            left = [one for one in partitions if one[1] >= counts.get(one[0], 0)]
            if len(left) < len(partitions):
                partitions = frozenset(left)
        return partitions - self._single if self._single else partitions

    def __bool__(self) -> bool:
        return bool(self._counts or self._single)
