"""A partition's leader and ISR follow the brokers that are there, and no leader epoch is ever used twice."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.metadata.controller import Controller
from pybroker.metadata.elections import Candidates, Election, candidates, eligible_beside, plan_of_all, plan_of_named
from pybroker.metadata.entries import LEADER_EPOCH_KEY, encode_partition, encode_topic, partition_key, topic_key
from pybroker.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage, empty_image
from pybroker.metadata.members import BrokerRegistration, Members
from pybroker.metadata.partition_commits import carry_out
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId, LeaderEpoch, TopicId, TopicPartition
from pybroker.sharing.work import run_through

EPOCH = LeaderEpoch(77)
TOPIC_ID = TopicId(b"topic-of-16bytes")


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def partition(leader: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3), epoch: int = 5) -> PartitionImage:
    return PartitionImage(
        leader=BrokerId(leader), leader_epoch=LeaderEpoch(epoch), replicas=ids(*replicas), isr=ids(*isr), partition_epoch=9
    )


class Among(Election):
    """An election among these brokers, in a cluster where one replica in sync is enough unless a test wants more."""

    def next(self, before: PartitionImage, *, min_isr: int = 1, is_unclean_allowed: bool = False) -> PartitionImage | None:
        return self.after(before, min_isr=min_isr, is_unclean_allowed=is_unclean_allowed)


def election(*present: int, stopping: tuple[int, ...] = ()) -> Among:
    return Among(Candidates(frozenset(ids(*present)), frozenset(ids(*present)).difference(stopping)), EPOCH)


def changed(before: PartitionImage, leader: int, isr: tuple[int, ...], elr: tuple[int, ...] = ()) -> PartitionImage:
    """Return the next state with this leader, ISR and eligible leaders, with the epochs that it must have."""
    epoch = before.leader_epoch if before.leader == leader else EPOCH
    return replace(
        before,
        leader=BrokerId(leader),
        isr=ids(*isr),
        elr=ids(*elr),
        leader_epoch=epoch,
        partition_epoch=before.partition_epoch + 1,
    )


def test_the_first_in_sync_replica_in_the_replicas_order_follows_a_leader_that_is_gone() -> None:
    before = partition(1, (3, 2, 1))
    assert election(2, 3).next(before) == changed(before, 2, (3, 2))
    before = partition(1, (1, 3))
    assert election(2, 3).next(before) == changed(before, 3, (3,)), "replica 2 is not in sync"


def test_a_follower_that_is_gone_leaves_the_isr_and_the_leader_keeps_its_epoch() -> None:
    before = partition(1, (1, 2, 3))
    after = election(1, 3).next(before)
    assert after == changed(before, 1, (1, 3))
    assert after.leader_epoch == 5


def test_the_isr_shrinks_to_the_last_member_which_it_keeps() -> None:
    state: PartitionImage | None = partition(1, (1, 2, 3))
    for present, leader, isr in (((2, 3), 2, (2, 3)), ((3,), 3, (3,)), ((), NO_LEADER, (3,))):
        before, state = state, election(*present).next(state)  # type: ignore[arg-type]
        assert state == changed(before, leader, isr)  # type: ignore[arg-type]
    assert election().next(state) is None  # type: ignore[arg-type]


def test_an_isr_all_of_which_is_gone_at_once_stays_so_that_any_member_may_come_back() -> None:
    before = partition(1, (1, 2))
    after = election(3).next(before)
    assert after == changed(before, NO_LEADER, (1, 2))
    assert election(2, 3).next(after) == changed(after, 2, (2,))
    assert election(1, 3).next(after) == changed(after, 1, (1,))


def test_a_member_that_starts_leaves_an_isr_with_another_member_live_or_not() -> None:
    before = partition(3, (2, 3))
    for present in ((1,), (1, 2), (1, 2, 3)):  # the image may be behind
        after = election(*present).aside(before, BrokerId(3), min_isr=1, is_complete=False)
        assert after == changed(before, NO_LEADER, (2,)), "it may have lost its power, and the end of its log with it"
    alone = partition(3, (3,))
    assert election(1).aside(alone, BrokerId(3), min_isr=1, is_complete=False) == changed(alone, NO_LEADER, (3,)), (
        "only it has what was committed"
    )
    assert after is not None
    assert election(1, 2, 3).next(after) == changed(after, 2, (2,))


def test_a_member_that_lost_its_session_leads_nothing_but_stays_in_sync() -> None:
    before = partition(1, (3, 1))
    assert election(1, 3).aside(before, BrokerId(1), min_isr=1, is_complete=True) == changed(before, NO_LEADER, (3, 1))
    assert election(3).aside(partition(3, (3, 1)), BrokerId(1), min_isr=1, is_complete=True) is None, (
        "the other one may have lost records"
    )
    assert election(1).aside(partition(1, (1,), replicas=(1,)), BrokerId(1), min_isr=1, is_complete=False) is None


def test_replicas_that_leave_an_isr_that_is_too_small_are_eligible_until_it_is_large_enough() -> None:
    before = partition(1, (1, 2, 3))
    assert election(1, 2).next(before, min_isr=2) == changed(before, 1, (1, 2))
    both = election(1).next(before, min_isr=2)
    assert both == changed(before, 1, (1,), (2, 3)), "nothing was acknowledged without them"
    assert both is not None
    assert election(1, 2).next(both, min_isr=2) is None, "the leader takes it in by its fetches"
    assert eligible_beside(ids(1, 2), both, 2) == ()
    assert eligible_beside(ids(1, 2), both, 3) == ids(3)
    assert eligible_beside(ids(1), both, 9) == ids(2, 3)
    assert election(1).next(partition(1, (1, 2), (1, 2)), min_isr=9) == changed(partition(1, (1, 2), (1, 2)), 1, (1,), (2,))


def test_an_eligible_replica_leads_when_no_member_of_the_isr_can() -> None:
    before = replace(partition(1, (1,)), elr=ids(2, 3))
    assert election(3).next(before, min_isr=2) == changed(before, 3, (3,), (1, 2))
    assert election(1, 3).next(before, min_isr=2) is None
    assert election().next(before, min_isr=2) == changed(before, NO_LEADER, (1,), (2, 3))
    assert election(3, stopping=(3,)).next(before, min_isr=2) == changed(before, NO_LEADER, (1,), (2, 3))
    assert election(1, 3, stopping=(1,)).next(replace(before, leader=NO_LEADER), min_isr=2) == changed(
        replace(before, leader=NO_LEADER), 3, (3,), (1, 2)
    )


def test_a_replica_that_may_have_lost_records_is_not_eligible_and_gives_its_place_to_those_that_are() -> None:
    before = replace(partition(1, (1,)), elr=ids(2, 3))
    after = election().aside(before, BrokerId(2), min_isr=2, is_complete=False)
    assert after == changed(before, 1, (1,), (3,))
    after = election().aside(before, BrokerId(1), min_isr=2, is_complete=False)
    assert after == changed(before, NO_LEADER, (2, 3)), "two are enough"
    after = election().aside(before, BrokerId(1), min_isr=3, is_complete=False)
    assert after == changed(before, NO_LEADER, (2, 3)), "but it is no longer eligible itself"
    assert election().aside(before, BrokerId(1), min_isr=2, is_complete=True) == changed(before, NO_LEADER, (1,), (2, 3))
    assert election().aside(before, BrokerId(2), min_isr=2, is_complete=True) is None


def test_after_an_unclean_election_no_other_replica_is_eligible() -> None:
    before = partition(NO_LEADER, (3,))
    assert election(2).next(before, min_isr=2, is_unclean_allowed=True) == changed(before, 2, (2,))


def test_no_leader_remains_until_a_member_of_the_isr_returns() -> None:
    before = partition(NO_LEADER, (3,))
    assert election(1, 2).next(before) is None
    assert election(1, 2, 3).next(before) == changed(before, 3, (3,))


def test_an_unclean_leader_is_elected_only_where_the_topic_allows_it() -> None:
    before = partition(3, (3,))
    assert election(1, 2).next(before) == changed(before, NO_LEADER, (3,))
    assert election(2, 1).next(before, is_unclean_allowed=True) == changed(before, 1, (1,))
    assert election().next(before, is_unclean_allowed=True) == changed(before, NO_LEADER, (3,)), "there is no replica at all"
    clean = partition(1, (1, 2))
    assert election(2, 3).next(clean, is_unclean_allowed=True) == changed(clean, 2, (2,)), "a clean one comes first"


def test_a_stopping_broker_becomes_no_leader_but_may_remain_one_and_stay_in_sync() -> None:
    before = partition(1, (1, 2, 3))
    assert election(2, 3, stopping=(2,)).next(before) == changed(before, 3, (2, 3))
    assert election(1, 2, 3, stopping=(1,)).next(before) is None
    alone = partition(NO_LEADER, (2,))
    assert election(2, 3, stopping=(2,)).next(alone) is None


def test_a_partition_with_one_replica_is_untouched() -> None:
    for present in ((), (1,), (2,)):
        assert election(*present).next(partition(1, (1,), (1,)), is_unclean_allowed=True) is None


def test_the_preferred_replica_leads_if_it_is_in_sync_live_and_not_stopping() -> None:
    before = partition(2, (1, 2))
    assert election(1, 2).preferred(before) == changed(before, 1, (1, 2))
    assert election(1, 2).preferred(partition(1, (1, 2))) is None, "it leads already"
    assert election(1, 2).preferred(partition(2, (2,))) is None
    assert election(2).preferred(before) is None
    assert election(1, 2, stopping=(1,)).preferred(before) is None


def cluster(*live: int, stopping: tuple[int, ...] = ()) -> ClusterImage:
    brokers = {one: BrokerRegistration(broker_id=one, endpoints={}, epoch=1, is_stopping=one in stopping) for one in ids(*live)}
    members = Members(registered=MappingProxyType(brokers), live=MappingProxyType(brokers), sessions=MappingProxyType({}))
    return replace(empty_image(BrokerId(1)), members=members)


def test_brokers_that_count_as_gone_are_no_candidates() -> None:
    found = candidates(cluster(1, 2, 3, stopping=(3,)), gone=ids(2))
    assert (sorted(found.present), sorted(found.electable)) == ([1, 3], [1])


def test_a_plan_has_only_the_partitions_that_change_or_only_those_of_one_broker() -> None:
    partitions = (partition(1, (1, 2)), partition(2, (2, 3)), partition(3, (2, 3)))
    topics = [
        TopicImage(name="t", topic_id=TOPIC_ID, partitions=partitions, configs={}),
        TopicImage(name="one", topic_id=TopicId(bytes(16)), partitions=(partition(1, (1,), (1,)),), configs={}),
    ]
    plan = run_through(plan_of_all(topics, lambda topic, number: election(3).next(topic.partitions[number])))
    assert [change.number for change in plan] == [0, 1, 2]
    plan = run_through(plan_of_all(topics, lambda topic, number: election(2, 3).next(topic.partitions[number])))
    assert [(change.topic_id, change.number) for change in plan] == [(TOPIC_ID, 0)]


def test_a_plan_of_named_partitions_leaves_out_those_that_do_not_exist() -> None:
    topic = TopicImage(name="t", topic_id=TOPIC_ID, partitions=(partition(2, (1, 2)),) * 2, configs={})
    image, _ = cluster(1, 2).changed(revision=1, topics=[topic])
    wanted = [TopicPartition("t", 1), TopicPartition("t", 2), TopicPartition("u", 0), TopicPartition("t", -1)]
    plan = run_through(plan_of_named(image, wanted, lambda topic, number: election(1, 2).preferred(topic.partitions[number])))
    assert [change.number for change in plan] == [1]


# In the store


class Few(MemoryStore):
    """A store with small commits, which another broker may overtake."""

    def __init__(self, operations_max: int = 100) -> None:
        super().__init__()
        self.limits = self.limits._replace(operations_max=operations_max)
        self.faster: list[dict[str, Any]] = []
        self.commits = 0

    async def commit(self, **arguments: Any) -> Any:
        if self.faster and "partitions/" in str(arguments.get("puts")):
            await super().commit(**self.faster.pop(0))
        self.commits += 1
        self.limits.check(arguments.get("puts") or {}, arguments.get("deletes") or (), arguments.get("compare") or {})
        return await super().commit(**arguments)


async def started(store: Few, *partitions: PartitionImage, floors: dict[int, int] | None = None) -> Controller:
    topic = TopicImage(name="t", topic_id=TOPIC_ID, partitions=partitions, configs={})
    puts = {topic_key("t"): encode_topic(topic)}
    for broker_id, floor in (floors or {}).items():
        puts |= {f"leader-epochs/broker/{broker_id}": b"%d" % floor, LEADER_EPOCH_KEY: b"%d" % max((floors or {}).values())}
    await store.commit(puts=puts)
    controller = Controller(store, BrokerConfig(), broker_id=BrokerId(1))
    await controller.start()
    return controller


async def elect(controller: Controller, store: Few, *present: int) -> int:
    among = election(*present).among
    return await carry_out(
        controller,
        store.limits.operations_max,
        lambda image, epoch: plan_of_all(
            image.topics.values(), lambda topic, n: Election(among, epoch).after(topic.partitions[n], min_isr=1)
        ),
    )


def states(controller: Controller) -> list[tuple[int, int]]:
    return [(one.leader, one.leader_epoch) for one in controller.image.topics["t"].partitions]


async def test_every_new_leader_has_the_next_epoch_of_the_counter_not_of_its_partition() -> None:
    store = Few()
    controller = await started(store, partition(1, (1, 2), epoch=3), partition(2, (1, 2), epoch=8), floors={2: 20})
    assert states(controller) == [(1, 3), (2, 20)]
    assert await elect(controller, store, 2, 3) == 2, "the ISR of the second one shrinks"
    assert states(controller) == [(2, 21), (2, 20)]
    assert controller.image.leader_epochs.counter == 21
    entry = await store.get(LEADER_EPOCH_KEY)
    assert entry is not None
    assert entry.value == b"21"


async def test_a_leader_with_a_floor_is_followed_by_one_without_and_the_epoch_does_not_fall() -> None:
    store = Few()
    controller = await started(store, partition(1, (1, 2), epoch=3), floors={1: 8})
    assert states(controller) == [(1, 8)]
    await elect(controller, store, 2)
    assert states(controller) == [(2, 9)]
    again = Controller(store, BrokerConfig(), broker_id=BrokerId(2))
    await again.start()
    assert states(again) == [(2, 9)], "the entry itself has it"


async def test_an_isr_change_writes_the_effective_epoch_of_a_floor() -> None:
    store = Few()
    controller = await started(store, partition(1, (1, 2), epoch=3), floors={1: 8})
    await elect(controller, store, 1)
    assert states(controller) == [(1, 8)]
    entry = await store.get(partition_key(TOPIC_ID, 0))
    assert entry is not None
    assert b'"leader_epoch":8' in entry.value


async def test_an_epoch_that_another_broker_takes_meanwhile_is_not_used_again() -> None:
    store = Few()
    controller = await started(store, partition(1, (1, 2), epoch=3))
    other = Controller(store, BrokerConfig(), broker_id=BrokerId(2))
    await other.start()
    store.faster = [{"puts": {LEADER_EPOCH_KEY: b"1", "leader-epochs/broker/2": b"1"}}]  # a start that raises its epochs
    await elect(controller, store, 2, 3)
    assert states(controller) == [(2, 2)]


async def test_two_brokers_that_elect_at_the_same_time_give_one_leader_and_one_epoch() -> None:
    store = Few()
    controller = await started(store, partition(1, (1, 2, 3), epoch=3))
    other = Controller(store, BrokerConfig(), broker_id=BrokerId(2))
    await other.start()
    await asyncio.gather(elect(controller, store, 2, 3), elect(other, store, 2, 3))
    assert states(controller) == states(other) == [(2, 1)]


async def test_an_isr_change_that_comes_between_is_planned_from() -> None:
    store = Few()
    before = partition(1, (1, 2, 3), epoch=3)
    controller = await started(store, before)
    shrunk = replace(before, isr=ids(1, 3), partition_epoch=10)
    store.faster = [{"puts": {partition_key(TOPIC_ID, 0): encode_partition(shrunk)}}]
    await elect(controller, store, 2, 3)
    (after,) = controller.image.topics["t"].partitions
    assert (after.leader, after.isr, after.partition_epoch) == (3, ids(3), 11), "replica 2 was not in sync any more"


async def test_the_commits_of_a_large_election_are_as_small_as_the_store_wants_each_with_an_epoch_of_its_own() -> None:
    store = Few(operations_max=4)
    controller = await started(store, *[partition(1, (1, 2))] * 7)
    store.commits = 0
    assert await elect(controller, store, 2, 3) == 7
    assert store.commits == 3
    assert [epoch for _, epoch in states(controller)] == [1, 1, 1, 2, 2, 2, 3]


@pytest.mark.parametrize("operations_max", [2, 3])
async def test_the_smallest_commits_elect_everything(operations_max: int) -> None:
    store = Few(operations_max=operations_max)
    controller = await started(store, *[partition(1, (1, 2))] * 3)
    assert await elect(controller, store) == 3
    assert {leader for leader, _ in states(controller)} == {NO_LEADER}
