"""Who shall read which partitions.

    uniform  everybody has equally many, or one more; what members have stays with them as far as that allows
    range    of each topic everybody has neighbouring partitions: equal numbers of topics that are alike meet in one member

Where members subscribe to different topics, `uniform` moves single partitions from who has most to who has least, among those
that may have them, until that makes nothing better.

Cost
    P partitions and M members: P log M when all subscribe to the same, P * M otherwise.

Source: UniformAssignor, RangeAssignor, of whose results these have the properties, not each number; KIP-848.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from pybroker.coordinator.consumer.member import NOTHING, Assignment, assignment_of, partitions_of
from pybroker.model import MemberId


class Subscriber(NamedTuple):
    """A member as assignors see it. `target` is what it should have up to now."""

    member_id: MemberId
    instance_id: str | None
    topic_ids: frozenset[bytes]
    target: Assignment = NOTHING


Partition = tuple[bytes, int]
Assignor = Callable[[list[Subscriber], Mapping[bytes, int]], dict[MemberId, Assignment]]
"""Called with the subscribers and the number of partitions by topic id; everybody is in the result."""


def assign_range(subscribers: list[Subscriber], partition_counts: Mapping[bytes, int]) -> dict[MemberId, Assignment]:
    """Static members first, by their instance, so that a restart changes nothing; then by member id."""
    collected: dict[MemberId, dict[bytes, frozenset[int]]] = {subscriber.member_id: {} for subscriber in subscribers}
    in_order = sorted(
        subscribers, key=lambda subscriber: (subscriber.instance_id is None, subscriber.instance_id or subscriber.member_id)
    )
    for topic_id, count in partition_counts.items():
        readers = [subscriber.member_id for subscriber in in_order if topic_id in subscriber.topic_ids]
        if not readers:
            continue
        even_count, remainder = divmod(count, len(readers))
        start = 0
        for number, member_id in enumerate(readers):
            end = start + even_count + (number < remainder)
            if end > start:
                collected[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(collected)


def assign_uniform(subscribers: list[Subscriber], partition_counts: Mapping[bytes, int]) -> dict[MemberId, Assignment]:
    """See the module."""
    if len({subscriber.topic_ids for subscriber in subscribers}) <= 1:
        shares = _share_alike(subscribers, partition_counts)
    else:
        shares = _share_unlike(subscribers, partition_counts)
    return {member_id: assignment_of(iter(partitions)) for member_id, partitions in shares.items()}


def _keep_targets(
    subscribers: list[Subscriber], partition_counts: Mapping[bytes, int]
) -> tuple[dict[MemberId, set[Partition]], list[Partition]]:
    """What everybody has and may keep, and what nobody has."""
    readable = {topic_id for subscriber in subscribers for topic_id in subscriber.topic_ids}
    assigned: set[Partition] = set()
    shares: dict[MemberId, set[Partition]] = {}
    for subscriber in subscribers:
        share = {
            (topic_id, partition)
            for topic_id, partition in partitions_of(subscriber.target)
            if topic_id in subscriber.topic_ids and partition < partition_counts.get(topic_id, 0)
        } - assigned
        assigned |= share
        shares[subscriber.member_id] = share
    everything = ((topic_id, n) for topic_id, count in partition_counts.items() if topic_id in readable for n in range(count))
    return shares, [partition for partition in everything if partition not in assigned]


def _share_alike(subscribers: list[Subscriber], partition_counts: Mapping[bytes, int]) -> dict[MemberId, set[Partition]]:
    shares, free = _keep_targets(subscribers, partition_counts)
    if not shares:
        return shares
    even_count, remainder = divmod(len(free) + sum(map(len, shares.values())), len(shares))
    for share in sorted(shares.values(), key=len, reverse=True):  # who has most keeps one more
        limit = even_count + (remainder > 0 and len(share) > even_count)
        remainder -= limit > even_count
        for partition in sorted(share)[limit:]:
            share.discard(partition)
            free.append(partition)
    heap = [(len(share), member_id) for member_id, share in shares.items()]
    heapq.heapify(heap)
    for partition in sorted(free):
        size, member_id = heap[0]
        shares[member_id].add(partition)
        heapq.heapreplace(heap, (size + 1, member_id))
    return shares


def _share_unlike(subscribers: list[Subscriber], partition_counts: Mapping[bytes, int]) -> dict[MemberId, set[Partition]]:
    shares, free = _keep_targets(subscribers, partition_counts)
    readers = {
        topic_id: [subscriber.member_id for subscriber in subscribers if topic_id in subscriber.topic_ids]
        for topic_id in partition_counts
    }

    def size_and_id(member_id: MemberId) -> tuple[int, str]:
        return len(shares[member_id]), member_id

    # What few may have comes first.
    for partition in sorted(free, key=lambda partition: (len(readers[partition[0]]), partition)):
        shares[min(readers[partition[0]], key=size_and_id)].add(partition)
    is_better = True
    while is_better:  # each move makes the sum of squares smaller, so this ends
        is_better = False
        for member_id in sorted(shares, key=size_and_id, reverse=True):
            for partition in sorted(shares[member_id]):
                least = min(readers[partition[0]], key=size_and_id)
                if len(shares[least]) + 1 < len(shares[member_id]):
                    shares[member_id].discard(partition)
                    shares[least].add(partition)
                    is_better = True
    return shares


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({"uniform": assign_uniform, "range": assign_range})
"""By the names that clients use."""
