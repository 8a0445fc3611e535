"""Descriptions that a few bytes ask for are made once for a request, however often it names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.api.handlers import describe_producers
from pybroker.api.pieces import Once, Pieces
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pybroker.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from pybroker.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from pybroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from testing.scenes.api.groups import GROUP, commit_request, member
from testing.scenes.api.groups import broker as with_groups
from tests.api.handlers.test_consumer_group_heartbeat import joining
from tests.api.transactions import Producer
from tests.api.transactions import broker as with_transactions

COUNTS = (2, 1_000)
"""The first number of mentions is handled at once, the other in pieces."""


@pytest.mark.parametrize("count", COUNTS)
async def test_the_producers_of_a_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    whole = await with_transactions(tmp_path)
    producer = Producer(whole, version=2)
    await producer.init()
    await producer.send(0, b"a")
    await producer.send(1, b"b")
    made = []

    def state(**fields: Any) -> ProducerState:
        made.append(fields["producer_id"])
        return ProducerState(**fields)

    monkeypatch.setattr(describe_producers, "ProducerState", state)
    topics = [
        TopicRequest(name="t", partition_indexes=[0] * count + [7] + [1] * count),
        TopicRequest(name="t", partition_indexes=[1, 0] * count),
    ]
    response = await whole.ask(DescribeProducersRequest(topics=topics), 0)
    assert made == [producer.producer_id] * 2
    first, again = response.topics
    assert [(one.partition_index, one.error_code, len(one.active_producers)) for one in first.partitions] == [
        (0, ErrorCode.NONE, 1),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        (1, ErrorCode.NONE, 1),
    ]
    assert (first.name, again.name, again.partitions) == ("t", "t", [])


@pytest.mark.parametrize("count", COUNTS)
async def test_transactions(tmp_path: Path, count: int) -> None:
    whole = await with_transactions(tmp_path)
    for tid in ("a", "b"):
        producer = Producer(whole, version=2, tid=tid)
        await producer.init()
        await producer.send(0, b"a")
    request = DescribeTransactionsRequest(transactional_ids=["a", *["b"] * count, *["a", "b"] * count])
    states = (await whole.ask(request, 0)).transaction_states
    assert [(one.transactional_id, len(one.topics)) for one in states] == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("count", COUNTS)
async def test_classic_groups(tmp_path: Path, count: int) -> None:
    whole = await with_groups(tmp_path)
    await member(whole)
    response = await whole.ask(DescribeGroupsRequest(groups=[GROUP] * count), 5)
    assert [(one.group_id, len(one.members)) for one in response.groups] == [(GROUP, 1)]


@pytest.mark.parametrize("count", COUNTS)
async def test_consumer_groups(tmp_path: Path, count: int) -> None:
    whole = await with_groups(tmp_path)
    await whole.ask(joining(), 1)
    response = await whole.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP] * count), 1)
    assert [(one.group_id, len(one.members)) for one in response.groups] == [(GROUP, 1)]


@pytest.mark.parametrize("count", COUNTS)
async def test_groups_whose_topics_are_null(tmp_path: Path, count: int) -> None:
    whole = await with_groups(tmp_path)
    await whole.ask(commit_request(offset=7), 8)
    everything = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    one = OffsetFetchRequestGroup(group_id=GROUP, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])])
    response = await whole.ask(OffsetFetchRequest(groups=[one, *[everything] * count, one]), 8)
    offsets = [[[part.committed_offset for part in topic.partitions] for topic in group.topics] for group in response.groups]
    assert offsets == [[[7]]] * 3


@pytest.mark.parametrize("version", [7, 8, 10])
async def test_partitions_with_metadata(tmp_path: Path, version: int) -> None:
    whole = await with_groups(tmp_path)
    await whole.ask(commit_request(offset=7, committed_metadata="m" * 4_000), 8)
    indexes = [0] * 1_000 + [1] + [0] * 1_000
    if version < 8:
        topic = OffsetFetchRequestTopic(name="t", partition_indexes=indexes)
        (found,) = (await whole.ask(OffsetFetchRequest(group_id=GROUP, topics=[topic]), version)).topics
    else:
        by_id = {"topic_id": whole.services.controller.image.topics["t"].topic_id} if version >= 10 else {"name": "t"}
        asked = OffsetFetchRequestGroup(group_id=GROUP, topics=[OffsetFetchRequestTopics(partition_indexes=indexes, **by_id)])
        ((found,),) = [one.topics for one in (await whole.ask(OffsetFetchRequest(groups=[asked]), version)).groups]
    assert [(one.partition_index, len(one.metadata)) for one in found.partitions] == [(0, 4_000), (1, 0)]


async def test_topics(tmp_path: Path) -> None:
    whole = await with_transactions(tmp_path)
    known = whole.services.controller.image.topics["t"]
    by_name, by_id = MetadataRequestTopic(name="t"), MetadataRequestTopic(name=None, topic_id=known.topic_id)
    for topic in (by_name, by_id):
        response = await whole.ask(MetadataRequest(topics=[topic] * 2_000), 12)
        assert [(one.name, len(one.partitions)) for one in response.topics] == [("t", 2)]


async def test_only_names_of_large_descriptions_are_remembered() -> None:
    seen: list[set[str]] = []

    def leave_out(request: Any, known: Any) -> set[Any]:
        seen.append(set(known))
        return set(request.groups)

    def handle(_services: Any, _context: Any, piece: DescribeGroupsRequest) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=[DescribedGroup(group_id=name) for name in piece.groups])

    once = Once(leave_out=leave_out, large=lambda response: [one.group_id for one in response.groups if one.group_id == "large"])
    pieces = Pieces(("groups", "groups"), elements=1, once=once)
    whole: Any = None
    pieces.handle(handle, whole, whole, DescribeGroupsRequest(groups=["small", "large", "other"]))
    assert seen == [set(), set(), {"large"}]
