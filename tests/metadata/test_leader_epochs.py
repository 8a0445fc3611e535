"""Leader epochs only grow: through raises, topics made again, other changes of a topic, restarts and other brokers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.config.broker import BrokerConfig
from pybroker.metadata.config_changes import TOPIC_KIND, ConfigChange, Edit, Operation
from pybroker.metadata.controller import Controller
from pybroker.metadata.entries import LEADER_EPOCH_KEY, leader_epoch_floor_key
from pybroker.metadata.image import ConfigResource, ImageDelta
from pybroker.metadata.leader_epochs import EPOCH_MAX
from pybroker.metadata.more_partitions import MorePartitions
from pybroker.metadata.store import open_store
from pybroker.metadata.store.base import StoreError
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId, LeaderEpoch
from tests.metadata.test_controller import Failing, Overtaken, assigned, controller, new


def epochs(made: Controller, topic: str = "t") -> list[int]:
    return [partition.leader_epoch for partition in made.image.topics[topic].partitions]


def retention(topic: str) -> ConfigChange:
    edits = [Edit("retention.ms", Operation.SET, "1000")]
    return ConfigChange(resource=ConfigResource(TOPIC_KIND, topic), edits=edits)


async def test_one_commit_raises_all_that_the_broker_leads() -> None:
    made = await controller(brokers=2)
    await made.create_topics([assigned((0, (1,)), (1, (2,)), (2, (1,))), new("u", 5)])
    before, deltas = made.image, list[ImageDelta]()
    made.subscribe(lambda _old, _new, delta: deltas.append(delta))
    before.derived["number"] = "of the old epochs"
    assert epochs(made) == [0, 0, 0]
    assert await made.raise_leader_epochs() == 1
    assert made.image.revision == before.revision + 1
    assert epochs(made) == [1, 0, 1], "broker 2 leads the second one"
    assert not made.image.derived
    (delta,) = deltas
    assert {old.name: new.name for old, new in delta.changed} == {"t": "t", "u": "u"}
    assert made.image.topics_by_id[made.image.topics["t"].topic_id] is made.image.topics["t"]
    assert before.topics["t"].partitions[0].leader_epoch == 0


async def test_the_next_value_is_above_what_was_found() -> None:
    made = await controller()
    await made.create_topics([new("t")])
    assert [await made.raise_leader_epochs(above=LeaderEpoch(above)) for above in (7, 3, -1, 9, 10)] == [8, 9, 10, 11, 12]
    assert epochs(made) == [12]


async def test_a_new_store_begins_at_0_and_new_topics_and_partitions_at_the_counter() -> None:
    made = await controller()
    await made.create_topics([new("t")])
    await made.raise_leader_epochs()
    await made.raise_leader_epochs()
    await made.delete_topics([made.image.topics["t"].topic_id])
    await made.create_topics([new("t", 2), new("u")])
    assert (epochs(made), epochs(made, "u")) == ([2, 2], [2])
    await made.raise_leader_epochs()
    assert await made.create_partitions([MorePartitions(name="u", count=3)]) == [None]
    assert epochs(made, "u") == [3, 3, 3]


async def test_a_topic_of_another_leader_begins_at_the_counter_too() -> None:
    made = await controller(brokers=2)
    await made.raise_leader_epochs()
    await made.create_topics([assigned((0, (2,)), (1, (1,)))])
    assert epochs(made) == [1, 1]


async def test_what_is_written_of_a_topic_later_keeps_its_epoch(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'metadata.db'}"
    store = open_store(url)
    made = await controller(store)  # type: ignore[arg-type]  # any store
    await made.create_topics([new("t"), new("u")])
    await made.raise_leader_epochs()
    assert await made.alter_configs([retention("t")]) == [None]
    assert (epochs(made), epochs(made, "u")) == ([1], [1])
    await store.close()
    again = Controller(open_store(url), BrokerConfig(), broker_id=BrokerId(1))
    await again.start()
    assert again.image.topics == made.image.topics
    assert again.image.leader_epochs == made.image.leader_epochs
    assert await again.raise_leader_epochs() == 2
    await again._store.close()


async def test_a_broker_that_is_overtaken_takes_the_next() -> None:
    store = Overtaken()
    made = await controller(store)
    await made.create_topics([new("t")])
    store.faster = [{"puts": {LEADER_EPOCH_KEY: b"5", leader_epoch_floor_key(BrokerId(2)): b"5"}}]
    assert await made.raise_leader_epochs() == 6
    assert epochs(made) == [6]


async def test_entries_that_another_client_removed_or_lowered_lower_nothing() -> None:
    store = MemoryStore()
    made = await controller(store)
    await made.create_topics([new("t")])
    await made.raise_leader_epochs(above=LeaderEpoch(4))
    await store.commit(deletes=[LEADER_EPOCH_KEY, leader_epoch_floor_key(BrokerId(1))])
    assert epochs(made) == [5]
    assert await made.raise_leader_epochs() == 6
    await store.commit(puts={LEADER_EPOCH_KEY: b"1", leader_epoch_floor_key(BrokerId(1)): b"2"})
    assert epochs(made) == [6]
    assert await made.raise_leader_epochs() == 7


async def test_a_counter_that_is_lost_is_not_below_a_floor() -> None:
    store = MemoryStore()
    await (await controller(store)).raise_leader_epochs(above=LeaderEpoch(4))
    await store.commit(deletes=[LEADER_EPOCH_KEY])
    assert await (await controller(store)).raise_leader_epochs() == 6


async def test_the_last_epoch_of_all_is_no_reason_to_fail() -> None:
    made = await controller()
    await made.create_topics([new("t")])
    assert await made.raise_leader_epochs(above=EPOCH_MAX) == EPOCH_MAX
    assert await made.raise_leader_epochs() == EPOCH_MAX
    assert epochs(made) == [EPOCH_MAX]


async def test_a_store_that_refuses_raises_nothing() -> None:
    store = Failing()
    made = await controller(store)
    await made.create_topics([new("t")])
    store.refuses = True
    with pytest.raises(StoreError, match="the disk is full"):
        await made.raise_leader_epochs()
    assert epochs(made) == [0]


@pytest.mark.parametrize("key", [LEADER_EPOCH_KEY, leader_epoch_floor_key(BrokerId(1)), "leader-epochs/broker/x"])
async def test_an_entry_that_cannot_be_read_is_named(key: str) -> None:
    store = MemoryStore()
    await store.commit(puts={key: b"many"})
    with pytest.raises(StoreError, match=key):
        await controller(store)


names, brokers = st.sampled_from(["a", "b"]), st.sampled_from([1, 2])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("create"), names, brokers),
        st.tuples(st.sampled_from(["delete", "grow", "configure"]), names, brokers),
        st.tuples(st.just("raise"), st.integers(-1, 6), brokers),
        st.tuples(st.just("restart"), names, brokers),
    ),
    max_size=25,
)


@given(steps=steps)
def test_no_name_ever_has_a_smaller_epoch_and_a_raise_gives_an_unused_epoch(steps: list[tuple[str, object, int]]) -> None:
    asyncio.run(_random_history(steps))


async def _random_history(steps: list[tuple[str, object, int]]) -> None:
    store = MemoryStore()
    of = {1: await controller(store, brokers=2), 2: Controller(store, BrokerConfig(), broker_id=BrokerId(2))}
    await of[2].start()
    seen: dict[tuple[str, int], int] = {}  # the largest by name and partition
    ever = 0
    for action, what, broker in steps:
        made, name = of[broker], str(what)
        topic = made.image.topics.get(name)
        if action == "create":
            leaders = [(number, (1 + (broker + number) % 2,)) for number in range(2)]
            (outcome,) = await made.create_topics([replace(assigned(*leaders), name=name)])
            assert (outcome.error is None) == (topic is None)
        elif action == "delete" and topic is not None:
            await made.delete_topics([topic.topic_id])
        elif action == "grow" and topic is not None:
            await made.create_partitions([MorePartitions(name=name, count=len(topic.partitions) + 1)])
        elif action == "configure":
            await made.alter_configs([retention(name)])
        elif action == "raise":
            assert isinstance(what, int)
            floor = await made.raise_leader_epochs(above=LeaderEpoch(what))
            assert floor > max(ever, what)
            own = [p for t in made.image.topics.values() for p in t.partitions if p.leader == broker]
            assert all(partition.leader_epoch == floor for partition in own)
            ever = floor
        elif action == "restart":
            of[broker] = Controller(store, BrokerConfig(), broker_id=BrokerId(broker))
            await of[broker].start()
        assert of[1].image.topics == of[2].image.topics
        for topic in of[1].image.topics.values():
            for number, partition in enumerate(topic.partitions):
                assert partition.leader_epoch >= seen.get((topic.name, number), 0)
                seen[topic.name, number] = partition.leader_epoch
                assert partition.leader_epoch <= ever
