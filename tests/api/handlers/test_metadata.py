"""Metadata in every version: which topics, which brokers, and what is created on the way."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pybroker.api.handlers import metadata
from pybroker.api.metadata_topics import NOT_ASKED_FOR, MetadataTopics
from pybroker.metadata.entries import encode_topic, topic_key
from pybroker.metadata.image import ClusterImage, PartitionImage, TopicImage, empty_image
from pybroker.metadata.members import BrokerRegistration, Endpoint
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import message_versions
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from pybroker.sharing.work import run_slice
from testing.scenes.api.cluster import ClusterScene
from testing.scenes.api.whole import Whole
from testing.turns import watched

VERSIONS = range(message_versions(ApiKey.METADATA)[1] + 1)
UNKNOWN, INVALID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION


def names(*topics: str, **fields: bool) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics], **fields)


def ids(*topic_ids: bytes) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids])


async def ask(cluster: ClusterScene, version: int, request: MetadataRequest, listener: str = "PLAINTEXT") -> MetadataResponse:
    response: MetadataResponse = await cluster.ask(metadata.handle, version, request, cluster.context(version, listener))
    return response


def errors(response: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.mark.parametrize("version", VERSIONS)
async def test_one_topic_in_every_version(version: int) -> None:
    cluster = await ClusterScene().start()
    topic_id = await cluster.create("t", 3)
    await cluster.create("other")
    response = await ask(cluster, version, names("t"))
    (broker,), (topic,) = response.brokers, response.topics
    assert (broker.node_id, broker.host, broker.port) == (1, "10.0.0.7", 9092), "the address by which the client came"
    assert broker.rack == ("r1" if version >= 1 else None)
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == ("cluster-id" if version >= 2 else None)
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "t", False)
    assert topic.topic_id == (topic_id if version >= 10 else ZERO_TOPIC_ID)
    assert [p.partition_index for p in topic.partitions] == [0, 1, 2]
    for partition in topic.partitions:
        assert (partition.error_code, partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (0, 1, [1], [1])
        assert (partition.leader_epoch, partition.offline_replicas) == (0 if version >= 7 else -1, [])
    assert (topic.topic_authorized_operations, response.cluster_authorized_operations) == (-(2**31), -(2**31))
    assert (response.error_code, response.throttle_time_ms) == (0, 0)


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_topics_and_no_topics(version: int) -> None:
    cluster = await ClusterScene().start()
    for name in ["a", "b", "__consumer_offsets"]:
        await cluster.create(name)
    response = await ask(cluster, version, MetadataRequest(topics=None if version >= 1 else []))
    assert {topic.name: topic.is_internal for topic in response.topics} == {
        "a": False,
        "b": False,
        "__consumer_offsets": version >= 1,
    }
    if version >= 1:
        response = await ask(cluster, version, MetadataRequest(topics=[]))
        assert response.topics == []
        assert len(response.brokers) == 1


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_missing_topic_is_created_and_returned_with_its_leader(version: int) -> None:
    cluster = await ClusterScene(num_partitions=2).start()
    response = await ask(cluster, version, names("new", "bad name", "new"))
    assert errors(response) == {"new": 0, "bad name": INVALID}
    assert [p.leader_id for p in response.topics[0].partitions] == [1, 1]
    assert cluster.controller.image.topics.keys() == {"new"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("side", ["broker", "request"])
async def test_nothing_is_created_when_one_side_does_not_want_it(version: int, side: str) -> None:
    cluster = await ClusterScene(auto_create_topics_enable=side != "broker").start()
    allow = side == "broker" or version < 4
    response = await ask(cluster, version, names("new", "bad name", allow_auto_topic_creation=allow))
    wanted = 0 if side == "request" and version < 4 else UNKNOWN
    assert errors(response) == {"new": wanted, "bad name": INVALID}
    assert bool(cluster.controller.image.topics) == (wanted == 0)


async def test_what_cannot_be_created_is_returned_with_the_reason() -> None:
    cluster = await ClusterScene(default_replication_factor=3).start()
    assert errors(await ask(cluster, 12, names("t"))) == {"t": ErrorCode.INVALID_REPLICATION_FACTOR}
    cluster = await ClusterScene().start()
    await cluster.create("a.b")
    assert errors(await ask(cluster, 12, names("a_b", "a.b"))) == {"a_b": INVALID, "a.b": 0}


async def test_fifty_requests_at_once_for_a_missing_topic_see_the_same_one() -> None:
    cluster = await ClusterScene().start()
    responses = await asyncio.gather(*(ask(cluster, 12, names("t")) for _ in range(50)))
    assert {(topic.error_code, topic.topic_id) for response in responses for topic in response.topics} == {
        (0, cluster.controller.image.topics["t"].topic_id)
    }


@pytest.mark.parametrize("version", range(12, VERSIONS.stop))
async def test_topics_by_id(version: int) -> None:
    cluster = await ClusterScene().start()
    known, unknown = await cluster.create("t"), b"u" * 16
    response = await ask(cluster, version, ids(known, unknown, known))
    assert [(t.error_code, t.name, t.topic_id) for t in response.topics] == [
        (0, "t", known),
        (ErrorCode.UNKNOWN_TOPIC_ID, None, unknown),
    ]
    mixed = MetadataRequest(topics=[*(ids(unknown).topics or []), *(names("t", "new").topics or [])])
    assert errors(await ask(cluster, version, mixed)) == {None: ErrorCode.UNKNOWN_TOPIC_ID}
    assert cluster.controller.image.topics.keys() == {"t"}


@pytest.mark.parametrize("version", [10, 11])
async def test_topic_ids_before_v12_are_refused(version: int) -> None:
    cluster = await ClusterScene().start()
    response = await ask(cluster, version, ids(await cluster.create("t"), ZERO_TOPIC_ID))
    assert [(t.error_code, t.name) for t in response.topics] == [(ErrorCode.INVALID_REQUEST, "")] * 2


@pytest.mark.parametrize("version", range(8, VERSIONS.stop))
async def test_authorized_operations_are_all_operations(version: int) -> None:
    cluster = await ClusterScene().start()
    await cluster.create("t")
    request = names(
        "t", "bad name", include_topic_authorized_operations=True, include_cluster_authorized_operations=version <= 10
    )
    response = await ask(cluster, version, request)
    assert {topic.topic_authorized_operations for topic in response.topics} == {3576}
    assert response.cluster_authorized_operations == (8096 if version <= 10 else -(2**31))
    assert (await ask(cluster, version, names("t"))).topics[0].topic_authorized_operations == -(2**31)


async def test_each_listener_has_its_addresses() -> None:
    far = BrokerRegistration(broker_id=BrokerId(2), endpoints={"EXTERNAL": Endpoint("two.example", 2)})
    cluster = await ClusterScene().start(far, EXTERNAL=Endpoint("one.example", 1))
    inside = await ask(cluster, 12, MetadataRequest(topics=[]))
    assert [(b.node_id, b.host, b.port) for b in inside.brokers] == [(1, "10.0.0.7", 9092)]
    outside = await ask(cluster, 12, MetadataRequest(topics=[]), "EXTERNAL")
    assert [(b.node_id, b.host, b.port) for b in outside.brokers] == [(1, "one.example", 1), (2, "two.example", 2)]


@pytest.mark.parametrize(
    ("version", "leader", "error", "shown", "offline"),
    [
        (0, 1, ErrorCode.REPLICA_NOT_AVAILABLE, [1], []),
        (1, 1, ErrorCode.NONE, [1, 2, 3], []),
        (5, 1, ErrorCode.NONE, [1, 2, 3], [2, 3]),
        (0, 2, ErrorCode.LEADER_NOT_AVAILABLE, [1], []),
        (5, 2, ErrorCode.LEADER_NOT_AVAILABLE, [1, 2, 3], [2, 3]),
        (6, 2, ErrorCode.LISTENER_NOT_FOUND, [1, 2, 3], [2, 3]),
        (12, 3, ErrorCode.LEADER_NOT_AVAILABLE, [1, 2, 3], [2, 3]),
        (12, -1, ErrorCode.LEADER_NOT_AVAILABLE, [1, 2, 3], [2, 3]),
    ],
)
async def test_replicas_and_leaders_that_are_out_of_reach(
    version: int, leader: int, error: ErrorCode, shown: list[int], offline: list[int]
) -> None:
    """Broker 2 has no address for the listener, broker 3 is gone."""
    store = MemoryStore()
    cluster = await ClusterScene(store).start(BrokerRegistration(broker_id=BrokerId(2), endpoints={}))
    partition = PartitionImage(
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(4),
        replicas=tuple(map(BrokerId, (1, 2, 3))),
        isr=tuple(map(BrokerId, (1, 2))),
        partition_epoch=0,
    )
    topic = TopicImage(name="t", topic_id=TopicId(b"t" * 16), partitions=(partition,), configs={})
    await store.commit(puts={topic_key("t"): encode_topic(topic)})
    (response,) = (await ask(cluster, version, names("t"))).topics[0].partitions
    assert (response.error_code, response.replica_nodes, response.offline_replicas) == (error, shown, offline)
    assert response.leader_id == (leader if leader == 1 else -1)


async def test_responses_follow_the_cluster() -> None:
    cluster = await ClusterScene().start()
    topic_id = await cluster.create("t")
    everything = MetadataRequest(topics=None)
    assert errors(await ask(cluster, 12, everything)) == {"t": 0}
    await cluster.create("u", 2)
    assert errors(await ask(cluster, 12, everything)) == {"t": 0, "u": 0}
    await cluster.controller.delete_topics([TopicId(topic_id)])
    assert errors(await ask(cluster, 12, everything)) == {"u": 0}
    assert errors(await ask(cluster, 12, names("t", allow_auto_topic_creation=False))) == {"t": UNKNOWN}


@pytest.mark.judges_time
def test_the_topics_of_a_large_cluster_are_made_in_slices() -> None:
    partition = PartitionImage(
        leader=BrokerId(1), leader_epoch=LeaderEpoch(0), replicas=(BrokerId(1),), isr=(BrokerId(1),), partition_epoch=0
    )
    made = (
        TopicImage(name=f"t{number}", topic_id=TopicId(number.to_bytes(16)), partitions=(partition,) * 4, configs={})
        for number in range(10_000)
    )
    image, _ = empty_image(BrokerId(1)).changed(revision=1, topics=made)
    known = MetadataTopics(
        image, frozenset({BrokerId(1)}), operations=NOT_ASKED_FOR, hides_unreachable=False, names_listener=True
    )
    work, topics = known.all(), None
    with watched() as turns:
        while topics is None:
            _, _, topics = turns.run(run_slice, work)
    assert turns.long_texts() == []
    assert [topic.name for topic in topics] == list(image.topics)
    assert run_slice(known.all()) == (True, None, topics), "the second time they are there"


@pytest.mark.parametrize(("count", "partitions"), [(41, 250), (10_001, 1), (101, 100)])
@pytest.mark.parametrize("version", [1, 12])
async def test_a_request_for_too_many_new_topics_creates_none(tmp_path: Path, count: int, partitions: int, version: int) -> None:
    """Whether it is handled at once or in pieces; Kafka's own limit of a CreateTopics."""
    whole = await Whole(tmp_path, num_partitions=partitions).start()
    response = await whole.ask(names(*map(str, range(count))), version)
    assert errors(response) == dict.fromkeys(map(str, range(count)), UNKNOWN)
    assert not whole.controller.image.topics


async def test_as_many_new_topics_as_one_request_may_create(tmp_path: Path) -> None:
    whole = await Whole(tmp_path, num_partitions=50).start()
    await whole.create("known")
    asked = [*map(str, range(200)), *map(str, range(200)), "known"]
    assert not any(errors(await whole.ask(names(*asked), 12)).values())
    assert len(whole.controller.image.topics) == 201


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_image_that_was_replaced_is_freed_at_once(tmp_path: Path, version: int) -> None:
    """The collector may have frozen the image, and would then never free a cycle."""
    whole = await Whole(tmp_path).start()
    with uncollected():
        for name in "abc":
            await whole.create(name)
            for request in (names(name), names() if version == 0 else MetadataRequest(topics=None)):
                await whole.ask(request, version)
        assert len([one for one in gc.get_objects() if isinstance(one, ClusterImage)]) == 1


@contextmanager
def uncollected() -> Iterator[None]:
    """Free what no collection is needed for, and begin without what others left."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
