"""Assignors are even and sticky, or assign neighbouring partitions; members get only partitions that they read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pybroker.coordinator.consumer import assignors
from pybroker.coordinator.consumer.assignors import Assignor, Subscriber
from pybroker.coordinator.state.consumer_member import Assignment, assignment_of, partitions_of
from pybroker.model import MemberId
from pybroker.sharing.work import run_through
from testing.turns import watched

T, U, V = b"t" * 16, b"u" * 16, b"v" * 16


AtOnce = Callable[[list[Subscriber], Mapping[bytes, int]], dict[MemberId, Assignment]]


def at_once(assignor: Assignor) -> AtOnce:
    """Return the assignor as a function that does all steps."""
    return lambda subscribers, partition_counts: run_through(assignor(subscribers, partition_counts))


ASSIGNORS = {name: at_once(assignor) for name, assignor in assignors.ASSIGNORS.items()}
assign_range, assign_uniform = ASSIGNORS["range"], ASSIGNORS["uniform"]


def subscriber(member_id: str, *topic_ids: bytes, target: Assignment | None = None, instance_id: str | None = None) -> Subscriber:
    return Subscriber(MemberId(member_id), instance_id, frozenset(topic_ids), target or {})


def again(subscribers: list[Subscriber], targets: Mapping[MemberId, Assignment]) -> list[Subscriber]:
    return [one._replace(target=targets[one.member_id]) for one in subscribers if one.member_id in targets]


def sizes(targets: Mapping[MemberId, Assignment]) -> list[int]:
    return sorted(len([*partitions_of(target)]) for target in targets.values())


def moved(before: Mapping[MemberId, Assignment], after: Mapping[MemberId, Assignment]) -> int:
    """Return the partitions that have changed their member."""
    owner = {partition: member_id for member_id, target in before.items() for partition in partitions_of(target)}
    return sum(owner.get(p, m) != m for m, target in after.items() for p in partitions_of(target))


@pytest.mark.parametrize("assignor", ASSIGNORS.values())
def test_no_members_or_no_topics(assignor: AtOnce) -> None:
    assert assignor([], {T: 3}) == {}
    assert assignor([subscriber("a")], {T: 3}) == {"a": {}}
    assert assignor([subscriber("a", T)], {}) == {"a": {}}


def test_range_gives_neighbours() -> None:
    three = [subscriber("b", T, U), subscriber("a", T, U), subscriber("c", T, U)]
    assert assign_range(three, {T: 4, U: 4}) == {
        "a": {T: {0, 1}, U: {0, 1}},  # topics alike meet
        "b": {T: {2}, U: {2}},
        "c": {T: {3}, U: {3}},
    }
    assert assign_range(three, {T: 2, U: 0}) == {"a": {T: {0}}, "b": {T: {1}}, "c": {}}


def test_range_of_different_topics() -> None:
    some = [subscriber("a", T), subscriber("b", T, U), subscriber("c", U)]
    assert assign_range(some, {T: 3, U: 2}) == {"a": {T: {0, 1}}, "b": {T: {2}, U: {0}}, "c": {U: {1}}}


def test_range_takes_static_members_first_by_their_instance() -> None:
    some = [subscriber("a", T), subscriber("z", T, instance_id="i1"), subscriber("y", T, instance_id="i2")]
    assert assign_range(some, {T: 3}) == {"z": {T: {0}}, "y": {T: {1}}, "a": {T: {2}}}
    restarted = [subscriber("a", T), subscriber("k", T, instance_id="i1"), subscriber("y", T, instance_id="i2")]
    assert assign_range(restarted, {T: 3})[MemberId("k")] == {T: {0}}


def test_uniform_moves_as_little_as_it_must() -> None:
    two = [subscriber("a", T, U), subscriber("b", T, U)]
    counts = {T: 5, U: 4}
    first = assign_uniform(two, counts)
    assert sizes(first) == [4, 5]
    assert assign_uniform(again(two, first), counts) == first
    third = assign_uniform([*again(two, first), subscriber("c", T, U)], counts)
    assert (sizes(third), moved(first, third)) == ([3, 3, 3], 3)
    without = assign_uniform(again([subscriber("a", T, U), subscriber("c", T, U)], third), counts)
    assert (sizes(without), moved({MemberId(name): third[MemberId(name)] for name in "ac"}, without)) == ([4, 5], 0)
    grown = assign_uniform(again(two, first), {T: 8, U: 4})
    assert (sizes(grown), moved(first, grown)) == ([6, 6], 0)
    gone = assign_uniform(again(two, first), {T: 5})
    assert sizes(gone) == [2, 3]


def test_uniform_balances_members_that_read_different_topics() -> None:
    some = [subscriber("a", T, U, V), subscriber("b", T), subscriber("c", U)]
    targets = assign_uniform(some, {T: 2, U: 2, V: 2})
    assert targets[MemberId("a")][V] == {0, 1}, "no other member reads it"
    assert sizes(targets) == [2, 2, 2]
    assert assign_uniform(again(some, targets), {T: 2, U: 2, V: 2}) == targets


MEMBERS = st.lists(st.sets(st.sampled_from([T, U, V])), min_size=1, max_size=7)
calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
COUNTS = st.fixed_dictionaries({T: st.integers(0, 9), U: st.integers(0, 9), V: st.integers(0, 9)})


@calm
@given(st.sampled_from(sorted(ASSIGNORS)), MEMBERS, MEMBERS, COUNTS, COUNTS)
def test_every_partition_that_a_member_reads_is_assigned_once(
    name: str, before: list[set[bytes]], after: list[set[bytes]], counts_before: dict[bytes, int], counts: dict[bytes, int]
) -> None:
    first = ASSIGNORS[name]([subscriber(str(n), *topics) for n, topics in enumerate(before)], counts_before)
    members = [subscriber(str(n), *topics, target=first.get(MemberId(str(n)))) for n, topics in enumerate(after)]
    targets = ASSIGNORS[name](members, counts)
    assert targets.keys() == {one.member_id for one in members}
    for one in members:
        assert targets[one.member_id].keys() <= one.topic_ids
        assert all(targets[one.member_id].values()), "a topic without partitions is left out"
    given_out = Counter(partition for target in targets.values() for partition in partitions_of(target))
    read = set().union(*after)
    assert given_out == Counter({(topic, n): 1 for topic, count in counts.items() if topic in read for n in range(count)})


@calm
@given(MEMBERS, COUNTS)
def test_uniform_cannot_be_better(topics: list[set[bytes]], counts: dict[bytes, int]) -> None:
    """Check that no partition could move to a member that has at least two fewer, and that a second run changes nothing."""
    members = [subscriber(str(n), *one) for n, one in enumerate(topics)]
    targets = assign_uniform(members, counts)
    size = {member_id: len([*partitions_of(target)]) for member_id, target in targets.items()}
    for member_id, target in targets.items():
        for topic_id, _ in partitions_of(target):
            assert all(size[other.member_id] + 1 >= size[member_id] for other in members if topic_id in other.topic_ids)
    assert assign_uniform(again(members, targets), counts) == targets


def assign_naively(subscribers: list[Subscriber], partition_counts: Mapping[bytes, int]) -> dict[MemberId, Assignment]:
    """Assign as `uniform` does where members read different topics, and look for the least member for each partition."""
    shares, free = run_through(assignors._keep_targets(subscribers, partition_counts))
    readers = {topic: [one.member_id for one in subscribers if topic in one.topic_ids] for topic in partition_counts}

    def size_and_id(member_id: MemberId) -> tuple[int, str]:
        return len(shares[member_id]), member_id

    for partition in sorted(free, key=lambda partition: (len(readers[partition[0]]), partition)):
        shares[min(readers[partition[0]], key=size_and_id)].add(partition)
    is_better = True
    while is_better:
        is_better = False
        for member_id in sorted(shares, key=size_and_id, reverse=True):
            for partition in sorted(shares[member_id]):
                least = min(readers[partition[0]], key=size_and_id)
                if len(shares[least]) + 1 < len(shares[member_id]):
                    shares[member_id].discard(partition)
                    shares[least].add(partition)
                    is_better = True
    return {member_id: assignment_of(iter(partitions)) for member_id, partitions in shares.items()}


@calm
@given(MEMBERS, MEMBERS, COUNTS, COUNTS)
def test_uniform_finds_what_a_naive_search_finds(
    before: list[set[bytes]], after: list[set[bytes]], counts_before: dict[bytes, int], counts: dict[bytes, int]
) -> None:
    first = assign_uniform([subscriber(str(n), *topics) for n, topics in enumerate(before)], counts_before)
    members = [subscriber(str(n), *topics, target=first.get(MemberId(str(n)))) for n, topics in enumerate(after)]
    if len({one.topic_ids for one in members}) > 1:
        assert assign_uniform(members, counts) == assign_naively(members, counts)


TOPIC_IDS = [number.to_bytes(16) for number in range(1, 1001)]
GROUPS = {
    "all topics": ([subscriber(f"m{n:03}", *TOPIC_IDS) for n in range(100)], dict.fromkeys(TOPIC_IDS, 10)),
    "other topics": (
        [subscriber(f"m{n:03}", *TOPIC_IDS[n % 2 :], *TOPIC_IDS[: n % 7]) for n in range(100)],
        dict.fromkeys(TOPIC_IDS, 10),
    ),
    "one member": ([subscriber("m", *TOPIC_IDS)], dict.fromkeys(TOPIC_IDS, 10)),
    "one topic": ([subscriber("m", T), subscriber("n", T), subscriber("o", U)], {T: 10_000, U: 1}),
}


@pytest.mark.judges_time
@pytest.mark.parametrize("group", GROUPS)
def test_no_step_of_an_assignment_holds_the_loop(group: str) -> None:
    members, counts = GROUPS[group]
    for subscribers in (members, [*again(members, assign_uniform(members, counts)), subscriber("new", *TOPIC_IDS[:100], T)]):
        work = assignors.assign_uniform(subscribers, counts)
        with watched(limit_ms=20) as turns:
            while turns.run(lambda work=work: next(work, "the end")) is None:
                pass
        assert turns.long_texts() == []
