"""The partitions of a transaction by topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybroker.model import TopicPartition


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of the partitions by topic, both in order."""
    found: dict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        found[topic].append(number)
    return {topic: sorted(found[topic]) for topic in sorted(found)}
