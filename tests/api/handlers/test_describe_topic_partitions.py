"""The pages of DescribeTopicPartitions together have everything once, in order, whatever the limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pybroker.api.handlers import describe_topic_partitions
from pybroker.metadata.entries import encode_partition, partition_key
from pybroker.model import BrokerId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from testing.scenes.api.cluster import ClusterScene

SIZES = {"a": 3, "b": 1, "c": 5}


async def filled(**config: Any) -> ClusterScene:
    cluster = await ClusterScene(**config).start()
    for name, partitions in SIZES.items():
        await cluster.create(name, partitions)
    return cluster


async def ask(
    cluster: ClusterScene, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    response: DescribeTopicPartitionsResponse = await cluster.ask(describe_topic_partitions.handle, 0, request)
    return response


@pytest.mark.parametrize("limit", [-1, 0, 1, 2, 3, 4, 5, 8, 9, 10, 2000])
@pytest.mark.parametrize("names", [(), ("c", "a", "b"), ("c", "missing", "a", "b", "zz")])
async def test_pages_add_up(limit: int, names: tuple[str, ...]) -> None:
    cluster, cursor = await filled(), None
    seen: list[tuple[str | None, int]] = []
    failed: list[tuple[str | None, int]] = []
    for _ in range(20):
        page = await ask(cluster, *names, limit=limit, cursor=cursor)
        count = sum(len(topic.partitions) for topic in page.topics)
        assert count <= max(limit, 1)
        for topic in page.topics:
            seen += [(topic.name, partition.partition_index) for partition in topic.partitions]
            failed += [(topic.name, topic.error_code)] if topic.error_code else []
        if page.next_cursor is None:
            break
        cursor = (page.next_cursor.topic_name, page.next_cursor.partition_index)
    assert seen == [(name, index) for name, size in SIZES.items() for index in range(size)]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert failed == ([("missing", unknown), ("zz", unknown)] if "missing" in names else [])


async def test_one_topic_in_full() -> None:
    cluster = await filled()
    (topic,) = (await ask(cluster, "b")).topics
    (partition,) = topic.partitions
    assert (topic.error_code, topic.topic_id) == (0, cluster.controller.image.topics["b"].topic_id)
    assert (topic.is_internal, topic.topic_authorized_operations) == (False, 3576)
    assert (partition.leader_id, partition.leader_epoch, partition.replica_nodes, partition.isr_nodes) == (1, 0, [1], [1])
    assert (partition.eligible_leader_replicas, partition.last_known_elr, partition.offline_replicas) == ([], [], [])


async def test_eligible_leaders_are_shown() -> None:
    cluster = await filled()
    controller = cluster.controller
    topic = controller.image.topics["b"]
    state = replace(topic.partitions[0], elr=(BrokerId(7),), partition_epoch=1)
    await controller.commit(puts={partition_key(topic.topic_id, 0): encode_partition(state)})
    ((described,),) = [one.partitions for one in (await ask(cluster, "b")).topics]
    assert (described.isr_nodes, described.eligible_leader_replicas, described.last_known_elr) == ([1], [7], [])


async def test_the_brokers_limit_counts_too() -> None:
    cluster = await filled(max_request_partition_size_limit=2)
    page = await ask(cluster, "c")
    assert [p.partition_index for p in page.topics[0].partitions] == [0, 1]
    assert page.next_cursor is not None
    assert (page.next_cursor.topic_name, page.next_cursor.partition_index) == ("c", 2)


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
async def test_a_cursor_that_does_not_fit_is_refused(cursor: tuple[str, int]) -> None:
    response = await ask(await filled(), "a", "c", cursor=cursor)
    assert {(t.name, t.error_code) for t in response.topics} == {
        ("a", ErrorCode.INVALID_REQUEST),
        ("c", ErrorCode.INVALID_REQUEST),
    }


async def test_a_cursor_at_a_deleted_topic_or_beyond_its_end_continues_behind_it() -> None:
    cluster = await filled()
    for cursor in [("aa", 7), ("a", 3), ("a", 9)]:
        page = await ask(cluster, cursor=cursor)
        assert [(t.name, len(t.partitions)) for t in page.topics if t.partitions] == [("b", 1), ("c", 5)]


async def test_names_that_cannot_exist() -> None:
    (topic,) = (await ask(await filled(), "no name")).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
