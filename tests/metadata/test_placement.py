"""Replicas are spread over brokers and racks, and a broker that is away does not stop a topic from being made."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.config.broker import BrokerConfig
from pybroker.metadata.controller import Controller
from pybroker.metadata.members import NO_BROKER_EPOCH, BrokerRegistration
from pybroker.metadata.more_partitions import MorePartitions
from pybroker.metadata.new_topic import NewTopic
from pybroker.metadata.placement import place_replicas
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from testing.scenes.members import add_live_broker

Brokers = dict[BrokerId, BrokerRegistration]


def brokers(racks: dict[int, str | None], *, away: tuple[int, ...] = (), stopping: tuple[int, ...] = ()) -> Brokers:
    return {
        BrokerId(one): BrokerRegistration(
            broker_id=BrokerId(one),
            endpoints={},
            rack=rack,
            epoch=NO_BROKER_EPOCH if one in away else 1,
            is_stopping=one in stopping,
        )
        for one, rack in racks.items()
    }


def placed(made: Brokers, partitions: int, factor: int, seed: int = 0) -> list[tuple[BrokerId, ...]]:
    return place_replicas(made, partition_count=partitions, replication_factor=factor, random=Random(seed))


@given(
    racks=st.dictionaries(st.integers(1, 9), st.sampled_from([None, "a", "b", "c"]), min_size=1),
    away=st.sets(st.integers(1, 9)),
    partitions=st.integers(1, 40),
    seed=st.integers(0, 9),
    data=st.data(),
)
def test_every_placement_keeps_the_rules(
    racks: dict[int, str | None], away: set[int], partitions: int, seed: int, data: st.DataObject
) -> None:
    live = racks.keys() - away
    factor = data.draw(st.integers(1, len(racks)))
    if not live:
        with pytest.raises(KafkaError, match="All brokers are currently fenced or in controlled shutdown"):
            placed(brokers(racks, away=tuple(away)), partitions, factor, seed)
        return
    replicas = placed(brokers(racks, away=tuple(away)), partitions, factor, seed)
    assert len(replicas) == partitions
    for one in replicas:
        assert len({*one}) == len(one) == factor
        assert one[0] in live
        of_racks = Counter(racks[broker] for broker in one)
        sizes = Counter(racks.values())
        if factor <= len(sizes):
            assert max(of_racks.values()) == 1, "each replica is in a rack of its own"
        for rack in sizes:
            unused = {broker for broker in live if racks[broker] == rack} - {*one}
            assert not unused or not away.intersection(broker for broker in one if racks[broker] == rack)


def test_leaders_are_on_all_live_brokers_in_turn() -> None:
    replicas = placed(brokers(dict.fromkeys(range(1, 5)), away=(4,)), 30, 3)
    assert Counter(one[0] for one in replicas) == {1: 10, 2: 10, 3: 10}
    assert {one for one in replicas if 4 in one} == set(), "three live brokers are enough"


def test_the_leaders_of_a_broker_would_move_to_all_others() -> None:
    replicas = placed(brokers(dict.fromkeys(range(1, 4))), 60, 3)
    assert {one[1] for one in replicas if one[0] == 1} == {2, 3}


def test_a_stopping_broker_gets_no_replica() -> None:
    made = brokers(dict.fromkeys(range(1, 4)), stopping=(2,))
    assert {broker for one in placed(made, 20, 2) for broker in one} == {1, 3}
    with pytest.raises(KafkaError, match="only 2 broker"):
        placed(made, 1, 3)


async def three(*live: int) -> Controller:
    controller = Controller(MemoryStore(), BrokerConfig(), broker_id=BrokerId(1), random=Random(3))
    await controller.start()
    for number in (1, 2, 3):
        registration = BrokerRegistration(broker_id=BrokerId(number), endpoints={})
        if number in live:
            await add_live_broker(controller, registration)
        else:
            await controller.register_broker(registration)
    return controller


async def test_a_topic_with_three_replicas_is_made_while_one_of_three_brokers_is_away() -> None:
    controller = await three(1, 2)
    (outcome,) = await controller.create_topics([NewTopic(name="t", partition_count=6, replication_factor=3, configs={})])
    assert outcome.error is None
    for partition in controller.image.topics["t"].partitions:
        assert sorted(partition.replicas) == [1, 2, 3]
        assert (sorted(partition.isr), partition.leader) == ([1, 2], partition.isr[0])
    assert await controller.create_partitions([MorePartitions(name="t", count=8)]) == [None]
    assert sorted(controller.image.topics["t"].partitions[7].isr) == [1, 2]


async def test_an_assignment_needs_registered_brokers_one_of_which_is_live() -> None:
    controller = await three(1, 2)

    async def create(*replicas: int) -> KafkaError | None:
        topic = NewTopic(name="t", assignments=((0, tuple(map(BrokerId, replicas))),), configs={})
        return (await controller.create_topics([topic], validate_only=True))[0].error

    assert await create(3, 2) is None
    for replicas, text in (
        ((4,), "no such broker is registered"),
        ((3,), "for partition 0 are fenced or in controlled shutdown"),
    ):
        error = await create(*replicas)
        assert error is not None
        assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert text in error.message
