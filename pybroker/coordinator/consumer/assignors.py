"""The assignors, which decide which member reads which partitions.

    uniform  all members get the same number of partitions, give or take 1, and keep what they have as far as that allows
    range    each member gets neighbouring partitions of each topic; partitions of the same number in similar topics meet in the
             same member

Where members subscribe to different topics, `uniform` moves single partitions from the member that has most to the member that
has least, among the members that may have the partition, until no move makes the assignment more even.

Cost
    P partitions and M members: P log M when all members subscribe to the same topics, P * M otherwise.

Source: UniformAssignor, RangeAssignor; the results have the same properties as theirs, but not every number; KIP-848.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from pybroker.coordinator.consumer.member import NOTHING, Assignment, assignment_of, partitions_of
from pybroker.model import MemberId


class Subscriber(NamedTuple):
    """A member as assignors see it. `target` is its present target."""

    member_id: MemberId
    instance_id: str | None
    topic_ids: frozenset[bytes]
    target: Assignment = NOTHING


Partition = tuple[bytes, int]
Assignor = Callable[[list[Subscriber], Mapping[bytes, int]], dict[MemberId, Assignment]]
"""A function of the subscribers and of the number of partitions by topic id; every subscriber is in the result."""


def assign_range(subscribers: list[Subscriber], partition_counts: Mapping[bytes, int]) -> dict[MemberId, Assignment]:
    """Assign ranges: to static members first, in the order of their instances, so that a restart changes nothing; then to the
    others, in the order of their ids.
    """
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
    """Assign evenly; see the module."""
    if len({subscriber.topic_ids for subscriber in subscribers}) <= 1:
        shares = _share_alike(subscribers, partition_counts)
    else:
        shares = _share_unlike(subscribers, partition_counts)
    return {member_id: assignment_of(iter(partitions)) for member_id, partitions in shares.items()}


def _keep_targets(
    subscribers: list[Subscriber], partition_counts: Mapping[bytes, int]
) -> tuple[dict[MemberId, set[Partition]], list[Partition]]:
    """Return what each member has and may keep, and the partitions that no member keeps."""
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
    for share in sorted(shares.values(), key=len, reverse=True):  # the members that have most keep 1 more
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

    # Partitions that few members may have come first.
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
"""The assignors, by the names that clients use."""
