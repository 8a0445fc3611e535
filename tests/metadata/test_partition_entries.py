"""A partition has two entries, its topic's and its own: in whatever order they come, the one with the larger epoch holds."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.metadata.config_changes import ConfigChange, Edit, Operation
from pybroker.metadata.controller import Controller
from pybroker.metadata.entries import apply_changes, encode_partition, encode_topic, partition_key, topic_key
from pybroker.metadata.image import ClusterImage, ConfigResource, PartitionImage, TopicImage, empty_image
from pybroker.metadata.members import BrokerRegistration
from pybroker.metadata.new_topic import NewTopic
from pybroker.metadata.store.base import Change, StoreError
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId, LeaderEpoch, TopicId
from testing.scenes.members import add_live_broker

ONE, TWO = BrokerId(1), BrokerId(2)
TOPIC_ID = TopicId(b"topic-of-16bytes")
OTHER_ID = TopicId(b"other-of-16bytes")


def partition(epoch: int, *, leader: BrokerId = ONE, revision: int = 0) -> PartitionImage:
    return PartitionImage(
        leader=leader,
        leader_epoch=LeaderEpoch(epoch),
        replicas=(ONE, TWO),
        isr=(leader,),
        partition_epoch=epoch,
        revision=revision,
    )


def topic(epoch: int, *, topic_id: TopicId = TOPIC_ID, count: int = 2) -> TopicImage:
    return TopicImage(name="t", topic_id=topic_id, partitions=(partition(epoch),) * count, configs={})


def topic_change(image: TopicImage, revision: int) -> Change:
    return Change(topic_key("t"), encode_topic(image), revision)


def own_change(number: int, image: PartitionImage, revision: int, topic_id: TopicId = TOPIC_ID) -> Change:
    return Change(partition_key(topic_id, number), encode_partition(image), revision)


def after(image: ClusterImage, *changes: Change) -> ClusterImage:
    return apply_changes(image, changes, max(change.revision for change in changes))[0]


def listed(*changes: Change) -> ClusterImage:
    """Return the image of a broker that starts now."""
    return after(empty_image(ONE), *sorted(changes))


def test_the_own_entry_holds_in_a_listing_although_it_comes_before_the_topic() -> None:
    image = listed(topic_change(topic(0), 3), own_change(1, partition(4, leader=TWO), 9))
    assert image.topics["t"].partitions == (partition(0), partition(4, leader=TWO, revision=9))
    assert image.topics_by_id[TOPIC_ID] is image.topics["t"]


def test_eligible_leaders_are_in_both_entries_and_an_entry_without_any_is_as_before() -> None:
    own, of_topic = (
        replace(partition(4), elr=(TWO,)),
        replace(topic(0), partitions=(partition(0), replace(partition(0), elr=(TWO,)))),
    )
    image = listed(topic_change(of_topic, 3), own_change(0, own, 9))
    assert image.topics["t"].partitions == (replace(own, revision=9), of_topic.partitions[1])
    assert b"elr" not in encode_partition(partition(4))


def test_the_topics_entry_holds_where_its_epoch_is_larger() -> None:
    image = listed(topic_change(topic(5), 9), own_change(0, partition(4), 3))
    assert image.topics["t"].partitions == (partition(5, revision=3), partition(5)), "the revision is that of the own entry"


def test_every_order_of_the_same_entries_ends_in_the_same_state() -> None:
    steps = [
        topic_change(topic(0), 1),
        own_change(0, partition(1), 2),
        own_change(0, partition(2), 3),
        own_change(1, partition(1), 4),
    ]
    first = listed(steps[0])
    expected = after(first, *steps[1:])
    assert [one.partition_epoch for one in expected.topics["t"].partitions] == [2, 1]
    one_by_one = first
    for step in steps[1:]:
        one_by_one = after(one_by_one, step)
    assert one_by_one.topics == expected.topics
    newest = {change.key: change for change in steps}
    for order in permutations(newest.values()):
        assert after(empty_image(ONE), *order).topics == expected.topics


def test_a_config_change_that_was_planned_before_an_isr_change_does_not_undo_it() -> None:
    image = after(listed(topic_change(topic(0), 1)), own_change(0, partition(7), 2))
    image = after(image, topic_change(replace(topic(0), configs={"retention.ms": "1"}), 3))
    assert image.topics["t"].configs == {"retention.ms": "1"}
    assert image.topics["t"].partitions[0] == partition(7, revision=2)


def test_new_partitions_come_beside_those_with_an_own_entry() -> None:
    image = after(listed(topic_change(topic(0), 1)), own_change(1, partition(7), 2), topic_change(topic(0, count=4), 2))
    assert [one.partition_epoch for one in image.topics["t"].partitions] == [0, 7, 0, 0]
    image = after(image, topic_change(topic(0, count=5), 3))
    assert [one.partition_epoch for one in image.topics["t"].partitions] == [0, 7, 0, 0, 0]


def test_a_topic_that_is_created_again_has_nothing_of_the_entries_of_its_predecessor() -> None:
    image = after(listed(topic_change(topic(0), 1)), own_change(0, partition(7), 2))
    again = topic_change(topic(0, topic_id=OTHER_ID), 3)
    for changes in ([again], [again, Change(partition_key(TOPIC_ID, 0), None, 3)], [again, own_change(0, partition(9), 3)]):
        created = after(image, *changes)
        assert created.topics["t"].partitions == (partition(0),) * 2
        assert created.topics_by_id.keys() == {OTHER_ID}
    assert listed(again, own_change(0, partition(7), 2)).topics["t"].partitions == (partition(0),) * 2


def test_entries_of_partitions_that_do_not_exist_are_skipped() -> None:
    image = listed(own_change(0, partition(7), 2))
    assert image.topics == {}
    image = after(image, topic_change(topic(0, count=1), 3), own_change(1, partition(7), 3))
    assert image.topics["t"].partitions == (partition(0),)
    assert after(image, Change(topic_key("t"), None, 4), own_change(0, partition(7), 4)).topics == {}


def test_a_deleted_own_entry_leaves_the_state_which_the_next_change_compares_with_its_absence() -> None:
    image = after(listed(topic_change(topic(0), 1)), own_change(0, partition(7), 2))
    image = after(image, Change(partition_key(TOPIC_ID, 0), None, 3))
    assert image.topics["t"].partitions[0] == partition(7)


def test_no_epoch_is_below_the_leaders_floor_after_a_change_of_the_own_entry() -> None:
    floor = Change("leader-epochs/broker/2", b"8", 2)
    image = after(listed(topic_change(topic(0), 1), floor), own_change(0, partition(4, leader=TWO), 3))
    assert [one.leader_epoch for one in image.topics["t"].partitions] == [8, 0]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("partitions/x/0", b"{}"),
        ("partitions/0", b"{}"),
        (partition_key(TOPIC_ID, 0), b"{}"),
        (partition_key(TOPIC_ID, 0), b"no"),
    ],
)
def test_an_entry_that_cannot_be_read_is_named(key: str, value: bytes) -> None:
    with pytest.raises(StoreError, match=f"the store's entry {key} cannot be read"):
        listed(Change(key, value, 1))


async def test_the_controller_keeps_an_isr_change_through_config_changes_and_deletes_its_entry_with_the_topic() -> None:
    store = MemoryStore()
    controller = Controller(store, BrokerConfig(), broker_id=ONE)
    await controller.start()
    for broker_id in (ONE, TWO):
        await add_live_broker(controller, BrokerRegistration(broker_id=broker_id, endpoints={}))
    (outcome,) = await controller.create_topics([NewTopic(name="t", partition_count=1, replication_factor=2, configs={})])
    assert outcome.topic is not None
    topic_id = outcome.topic.topic_id
    await store.commit(puts={partition_key(topic_id, 0): encode_partition(partition(3))})
    revision = controller.image.topics["t"].partitions[0].revision
    edit = ConfigChange(resource=ConfigResource("topic", "t"), edits=[Edit("retention.ms", Operation.SET, "5")])
    assert await controller.alter_configs([edit]) == [None]
    assert controller.image.topics["t"].partitions[0] == partition(3, revision=revision)
    started = Controller(store, BrokerConfig(), broker_id=TWO)
    await started.start()
    assert started.image.topics == controller.image.topics
    await controller.delete_topics([topic_id])
    assert [entry.key for entry in (await store.list("partitions/")).entries] == []
    await store.close()
