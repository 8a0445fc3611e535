"""Images share what did not change, and a delta shows exactly what did."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.metadata.entries import apply_changes, encode_topic, topic_key
from pybroker.metadata.image import ClusterImage, PartitionImage, TopicImage, empty_image
from pybroker.metadata.member_entries import broker_key, encode_broker
from pybroker.metadata.members import BrokerRegistration, Endpoint
from pybroker.metadata.store.base import Change, StoreError
from pybroker.model import BrokerId, LeaderEpoch, TopicId


def topic(name: str, number: int, partitions: int = 1, revision: int = 0, **configs: str) -> TopicImage:
    partition = PartitionImage(
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(2),
        replicas=(BrokerId(1), BrokerId(2)),
        isr=(BrokerId(1),),
        partition_epoch=3,
    )
    topic_id = TopicId(number.to_bytes(16, "big"))
    return TopicImage(name=name, topic_id=topic_id, partitions=(partition,) * partitions, configs=configs, revision=revision)


def test_added_changed_removed_and_recreated() -> None:
    keep, grow, gone, again = topic("keep", 2), topic("grow", 3), topic("gone", 4), topic("again", 5)
    before, delta = empty_image(BrokerId(1)).changed(revision=7, topics=[keep, grow, gone, again])
    assert (delta.added, delta.removed, delta.changed) == ((keep, grow, gone, again), (), ())
    grown, new, reborn = topic("grow", 3, partitions=2), topic("new", 6), topic("again", 7)
    after, delta = before.changed(revision=8, topics=[grown, new, reborn], removed_topics=["gone", "never was"])
    assert delta.added == (new, reborn)
    assert delta.removed == (gone, again)
    assert delta.changed == ((grow, grown),)
    assert not delta.brokers_changed
    assert after.topics == {"keep": keep, "grow": grown, "new": new, "again": reborn}
    assert after.topics["keep"] is keep
    assert before.topics.keys() == {"keep", "grow", "gone", "again"}, "the old image stays as it was"
    assert (before.revision, after.revision) == (7, 8)


def test_a_removal_and_a_creation_of_one_name_in_one_change() -> None:
    old, new = topic("t", 2), topic("t", 3)
    before, _ = empty_image(BrokerId(1)).changed(revision=1, topics=[old])
    after, delta = before.changed(revision=2, topics=[new], removed_topics=["t"])
    assert (delta.removed, delta.added, delta.changed) == ((old,), (new,), ())
    assert after.topics_by_id == {new.topic_id: new}


def test_brokers_come_change_and_go() -> None:
    one = encode_broker(BrokerRegistration(broker_id=BrokerId(1), endpoints={"PLAINTEXT": Endpoint("a", 9092)}))
    with_one, delta = apply_changes(empty_image(BrokerId(1)), [Change("brokers/1", one, 1)], 1)
    assert delta.brokers_changed
    assert with_one.registered[BrokerId(1)].endpoints == {"PLAINTEXT": Endpoint("a", 9092)}
    _, delta = apply_changes(with_one, [Change("brokers/1", one, 2)], 2)
    assert not delta
    without, delta = apply_changes(with_one, [Change("brokers/1", None, 3)], 3)
    assert delta.brokers_changed
    assert without.registered == {}


def test_what_is_derived_from_an_image_dies_with_it() -> None:
    image = empty_image(BrokerId(1))
    image.derived["number"] = 42
    assert image.changed(revision=1)[0].derived == {}


@given(steps=st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 3)), max_size=20))
def test_both_lookups_agree_and_deltas_add_up(steps: list[tuple[str, int]]) -> None:
    image = empty_image(BrokerId(1))
    known: dict[str, TopicImage] = {}
    for revision, (name, number) in enumerate(steps, start=1):
        if number == 0:
            image, delta = image.changed(revision=revision, removed_topics=[name])
        else:
            image, delta = image.changed(revision=revision, topics=[topic(name, number * 10 + ord(name), revision=revision)])
        for old in delta.removed:
            assert known.pop(old.name) == old
        for new in delta.added:
            assert new.name not in known
            known[new.name] = new
        for old, new in delta.changed:
            assert known[new.name] == old
            known[new.name] = new
        assert image.topics == known
        assert image.topics_by_id == {t.topic_id: t for t in known.values()}


def test_an_image_comes_back_from_its_entries() -> None:
    saved = topic("t.x", 9, partitions=3, revision=4, **{"retention.ms": "1"})
    broker = BrokerRegistration(
        broker_id=BrokerId(5), endpoints={"EXTERNAL": Endpoint("::1", 1), "PLAINTEXT": Endpoint("h", 2)}, rack="r"
    )
    changes = [
        Change("cluster/id", b"abc", 1),
        Change("producer-ids/next", b"1000", 2),
        Change("from-the-future/x", b"?", 3),
        Change(topic_key("t.x"), encode_topic(saved), 4),
        Change(broker_key(BrokerId(5)), encode_broker(broker), 5),
    ]
    image, delta = apply_changes(empty_image(BrokerId(5)), changes, 5)
    assert (image.cluster_id, image.topics, image.registered, image.revision) == ("abc", {"t.x": saved}, {5: broker}, 5)
    assert (delta.added, delta.brokers_changed) == ((saved,), True)
    image, _ = apply_changes(image, [Change(topic_key("t.x"), None, 6), Change(broker_key(BrokerId(5)), None, 6)], 6)
    assert (image.topics, image.registered, image.cluster_id) == ({}, {}, "abc")


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"{}", b"\xff", b'{"id":"x","partitions":[],"configs":{}}', b'{"endpoints":{"a":1},"rack":null}']
)
@pytest.mark.parametrize("key", ["topics/t", "brokers/1"])
def test_an_entry_that_cannot_be_read_is_named(key: str, value: bytes) -> None:
    with pytest.raises(StoreError, match=f"{key.split('/', maxsplit=1)[0][:-1]} {key[-1]}"):
        apply_changes(empty_image(BrokerId(1)), [Change(key, value, 1)], 1)


def test_an_image_is_immutable() -> None:
    image: ClusterImage = empty_image(BrokerId(1))
    with pytest.raises(TypeError):
        image.topics["t"] = topic("t", 1)  # type: ignore[index]  # what must fail
