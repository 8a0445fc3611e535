"""The assignors, which decide which member reads which partitions.

    uniform  all members get the same number of partitions, give or take 1, and keep what they have as far as that allows
    range    each member gets neighbouring partitions of each topic; partitions of the same number in similar topics meet in the
             same member

Where members subscribe to different topics, `uniform` moves single partitions from the member that has most to the member that
has least, among the members that may have the partition, until no move makes the assignment more even.

Cost
    P partitions, M members that name T topics together: P log M + T when all members subscribe to the same topics. Otherwise
    T more for each pass, and M for each partition that moves. An assignor yields after every few elements.

Source: UniformAssignor, RangeAssignor; the results have the same properties as theirs, but not every number; KIP-848.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.coordinator.state.consumer_member import NOTHING, Assignment
from pybroker.sharing.work import portions

if TYPE_CHECKING:
    from pybroker.model import MemberId
    from pybroker.sharing.work import Pausing


class Subscriber(NamedTuple):
    """A member as assignors see it. `target` is its present target."""

    member_id: MemberId
    instance_id: str | None
    topic_ids: frozenset[bytes]
    target: Assignment = NOTHING


Partition = tuple[bytes, int]
Assignor = Callable[[list[Subscriber], Mapping[bytes, int]], "Pausing[dict[MemberId, Assignment]]"]
"""A function of the subscribers and of the number of partitions by topic id; every subscriber is in the result."""


def assign_range(subscribers: list[Subscriber], partition_counts: Mapping[bytes, int]) -> Pausing[dict[MemberId, Assignment]]:
    """Assign ranges: to static members first, in the order of their instances, so that a restart changes nothing; then to the
    others, in the order of their ids.
    """
    collected: dict[MemberId, dict[bytes, frozenset[int]]] = {subscriber.member_id: {} for subscriber in subscribers}
    in_order = sorted(
        subscribers, key=lambda subscriber: (subscriber.instance_id is None, subscriber.instance_id or subscriber.member_id)
    )
    readers_of = yield from _readers(in_order, partition_counts)
    for topic_id, count in partition_counts.items():
        readers = readers_of[topic_id]
        if not readers:
            continue
        even_count, remainder = divmod(count, len(readers))
        start = 0
        for number, member_id in enumerate(readers):
            end = start + even_count + (number < remainder)
            if end > start:
                collected[member_id][topic_id] = frozenset(range(start, end))
            start = end
        yield
    return dict(collected)


def assign_uniform(subscribers: list[Subscriber], partition_counts: Mapping[bytes, int]) -> Pausing[dict[MemberId, Assignment]]:
    """Assign evenly; see the module."""
    if len({subscriber.topic_ids for subscriber in subscribers}) <= 1:
        shares = yield from _share_alike(subscribers, partition_counts)
    else:
        shares = yield from _share_unlike(subscribers, partition_counts)
    targets: dict[MemberId, dict[bytes, frozenset[int]]] = {}
    for member_id, share in shares.items():
        numbers: dict[bytes, set[int]] = {}
        for some in portions(tuple(share)):
            for topic_id, number in some:
                numbers.setdefault(topic_id, set()).add(number)
            yield
        targets[member_id] = {topic_id: frozenset(found) for topic_id, found in numbers.items()}
    return dict(targets)


def _readers(subscribers: list[Subscriber], partition_counts: Mapping[bytes, int]) -> Pausing[dict[bytes, list[MemberId]]]:
    """Return the subscribers of each topic, in their order."""
    readers: dict[bytes, list[MemberId]] = {topic_id: [] for topic_id in partition_counts}
    for subscriber in subscribers:
        for topic_id in subscriber.topic_ids:
            if topic_id in readers:
                readers[topic_id].append(subscriber.member_id)
        yield
    return readers


def _keep_targets(
    subscribers: list[Subscriber], partition_counts: Mapping[bytes, int]
) -> Pausing[tuple[dict[MemberId, set[Partition]], list[Partition]]]:
    """Return what each member has and may keep, and the partitions that no member keeps."""
    readable: set[bytes] = set()
    assigned: set[Partition] = set()
    shares: dict[MemberId, set[Partition]] = {}
    for topic_ids in {subscriber.topic_ids for subscriber in subscribers}:
        readable |= topic_ids
        yield
    for subscriber in subscribers:
        share = shares[subscriber.member_id] = set()
        for topic_id, numbers in subscriber.target.items():
            if topic_id in subscriber.topic_ids:
                count = partition_counts.get(topic_id, 0)
                share |= {(topic_id, number) for number in numbers if number < count} - assigned
        assigned |= share
        yield
    free: list[Partition] = []
    for topic_id, count in partition_counts.items():
        if topic_id in readable:
            free += [(topic_id, number) for number in range(count) if (topic_id, number) not in assigned]
            yield
    return shares, free


def _in_order(partitions: Collection[Partition]) -> Pausing[list[Partition]]:
    """Return the partitions in order. To sort the topics, and then the numbers of each, is quicker than to compare pairs."""
    numbers: dict[bytes, list[int]] = {}
    for some in portions(tuple(partitions)):
        for topic_id, number in some:
            numbers.setdefault(topic_id, []).append(number)
        yield
    ordered: list[Partition] = []
    for topic_id in sorted(numbers):
        ordered += [(topic_id, number) for number in sorted(numbers[topic_id])]
        yield
    return ordered


def _share_alike(subscribers: list[Subscriber], partition_counts: Mapping[bytes, int]) -> Pausing[dict[MemberId, set[Partition]]]:
    shares, free = yield from _keep_targets(subscribers, partition_counts)
    if not shares:
        return shares
    even_count, remainder = divmod(len(free) + sum(map(len, shares.values())), len(shares))
    for share in sorted(shares.values(), key=len, reverse=True):  # the members that have most keep 1 more
        limit = even_count + (remainder > 0 and len(share) > even_count)
        remainder -= limit > even_count
        if len(share) > limit:
            too_many = (yield from _in_order(share))[limit:]
            share.difference_update(too_many)
            free += too_many
    heap = [(len(share), member_id) for member_id, share in shares.items()]
    heapq.heapify(heap)
    for some in portions((yield from _in_order(free))):
        for partition in some:
            size, member_id = heap[0]
            shares[member_id].add(partition)
            heapq.heapreplace(heap, (size + 1, member_id))
        yield
    return shares


def _share_unlike(
    subscribers: list[Subscriber], partition_counts: Mapping[bytes, int]
) -> Pausing[dict[MemberId, set[Partition]]]:
    shares, free = yield from _keep_targets(subscribers, partition_counts)
    readers = yield from _readers(subscribers, partition_counts)
    numbers: dict[bytes, list[int]] = {}
    for topic_id, number in free:  # in the order of their numbers
        numbers.setdefault(topic_id, []).append(number)
    # Partitions that few members may have come first.
    for topic_id in sorted(numbers, key=lambda topic_id: (len(readers[topic_id]), topic_id)):
        heap = [(len(shares[member_id]), member_id) for member_id in readers[topic_id]]
        heapq.heapify(heap)
        for number in numbers[topic_id]:
            size, member_id = heap[0]
            shares[member_id].add((topic_id, number))
            heapq.heapreplace(heap, (size + 1, member_id))
        yield
    while (yield from _move(shares, readers)):  # each move makes the sum of squares smaller, so this ends
        pass
    return shares


def _move(shares: dict[MemberId, set[Partition]], readers: Mapping[bytes, list[MemberId]]) -> Pausing[bool]:
    """Move partitions from members that have more to members that have less. Returns whether any was moved."""

    def size_and_id(member_id: MemberId) -> tuple[int, str]:
        return len(shares[member_id]), member_id

    is_better = False
    least_of: dict[bytes, MemberId] = {}  # by topic, the reader that has least; until a partition is moved
    for member_id in sorted(shares, key=size_and_id, reverse=True):
        for partition in (yield from _in_order(shares[member_id])):
            topic_id = partition[0]
            least = least_of.get(topic_id)
            if least is None:
                least = least_of[topic_id] = min(readers[topic_id], key=size_and_id)
                yield
            if len(shares[least]) + 1 < len(shares[member_id]):
                shares[member_id].discard(partition)
                shares[least].add(partition)
                least_of.clear()
                is_better = True
            yield
    return is_better


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({"uniform": assign_uniform, "range": assign_range})
"""The assignors, by the names that clients use."""
