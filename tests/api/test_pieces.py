"""A request that is handled in slices or in pieces gives the loop back, and has the response that it has at once."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from pybroker.api import dispatch
from pybroker.api.handlers.list_offsets import LATEST
from pybroker.api.registry import APIS, load_api
from pybroker.protocol.codec import encode_response
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest
from pybroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pybroker.protocol.messages.describe_groups import DescribeGroupsRequest
from pybroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from pybroker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pybroker.protocol.messages.list_groups import ListGroupsRequest
from pybroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pybroker.protocol.messages.list_transactions import ListTransactionsRequest
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pybroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from testing.scenes.api.groups import GROUP, broker, commit_request
from testing.scenes.api.records import batch_of_values
from testing.scenes.api.whole import NOW_MS, Whole
from tests.api.administration import produce
from tests.api.configs import TOPIC
from tests.api.handlers.test_consumer_group_heartbeat import joining
from tests.api.transactions import TID, Producer

ALONE = frozenset({
    "Produce", "Fetch", "ListOffsets", "OffsetCommit", "JoinGroup", "Heartbeat", "SyncGroup", "ListGroups",
    "ApiVersions", "CreateTopics", "DeleteTopics", "InitProducerId", "AlterConfigs", "IncrementalAlterConfigs",
    "AlterReplicaLogDirs", "DescribeLogDirs", "CreatePartitions", "ListPartitionReassignments", "UpdateFeatures",
    "DescribeCluster", "ConsumerGroupHeartbeat", "GetTelemetrySubscriptions", "PushTelemetry", "ListConfigResources",
    "DescribeTopicPartitions", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit",
    "WriteTxnMarkers", "ListTransactions", "DescribeConfigs", "DescribeClientQuotas",
    "UnregisterBroker", "DescribeAcls", "CreateAcls", "DeleteAcls",
    "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken",
    "SaslHandshake", "SaslAuthenticate", "AlterUserScramCredentials", "AlterClientQuotas",
})  # fmt: skip
"""The APIs that are not handled in pieces: docs/design/latency.md shows for each why, and what bounds it instead."""


def group(name: str, *counts: int) -> OffsetFetchRequestGroup:
    topics = [
        OffsetFetchRequestTopics(name=f"t{number}" if number else "t", partition_indexes=list(range(count)))
        for number, count in enumerate(counts)
    ]
    return OffsetFetchRequestGroup(group_id=name, topics=topics)


def at_time(timestamp: int) -> ListOffsetsPartition:
    return ListOffsetsPartition(partition_index=0, timestamp=timestamp)


def epochs(*counts: int) -> OffsetForLeaderEpochRequest:
    topics = [
        OffsetForLeaderTopic(
            topic=f"t{number}", partitions=[OffsetForLeaderPartition(partition=one, leader_epoch=0) for one in range(count)]
        )
        for number, count in enumerate(counts)
    ]
    return OffsetForLeaderEpochRequest(topics=topics)


NAMES = [f"name-{number}" for number in range(900)]
TIMES = [0, NOW_MS + 2, NOW_MS + 1002, LATEST]
REQUESTS: list[tuple[Any, int]] = [
    (MetadataRequest(topics=None), 12),
    (DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=TOPIC, resource_name=name) for name in "ta"]), 4),
    (DescribeLogDirsRequest(topics=None), 4),
    (ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[*map(at_time, TIMES)])]), 0),
    (ListGroupsRequest(), 5),
    (ListTransactionsRequest(), 1),
    (DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])]), 0),
    (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)]), 8),
    (ConsumerGroupDescribeRequest(group_ids=["members", "none"]), 1),
    (OffsetFetchRequest(groups=[group(GROUP, *[2] * 500), group("h"), group("i", 3, 2000, *[1] * 200)]), 8),
    (OffsetFetchRequest(groups=[group(name) for name in NAMES]), 8),
    (epochs(1, 199, 200, 201, 0, 700), 3),
    (MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ["t", *NAMES]]), 12),
    (DescribeGroupsRequest(groups=[*NAMES, GROUP]), 5),
    (ConsumerGroupDescribeRequest(group_ids=NAMES), 1),
    (DeleteGroupsRequest(groups_names=NAMES), 2),
    (LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=name) for name in NAMES * 3]), 4),
]


async def filled(folder: Path) -> Whole:
    """Start a broker with topics, records, transactions, groups and offsets."""
    whole = await broker(folder, auto_create_topics_enable=False)
    for name in "ab":
        await whole.create(name)
    for timestamp in (NOW_MS, NOW_MS + 1000):
        await produce(whole, batch_of_values(b"a", b"b", timestamp=timestamp))
    for partition in range(2):
        await whole.ask(commit_request(partition=partition, offset=7 + partition), 8)
    await whole.ask(commit_request("a"), 8)
    for number in range(5):
        await whole.ask(joining(group_id="members", member_id=f"m{number}"), 1)
    await whole.ask(FindCoordinatorRequest(key=TID, key_type=1), 1)
    for tid in (TID, "t-2"):
        producer = Producer(whole, tid=tid)
        await producer.init()
        await producer.add(0)
        assert await producer.send(0, b"v") == ErrorCode.NONE
    return whole


@pytest.mark.parametrize(("request_", "version"), REQUESTS, ids=lambda one: getattr(type(one), "__name__", ""))
async def test_the_response_is_the_one_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: Any, version: int
) -> None:
    whole = await filled(tmp_path)
    whole.call_soon = asyncio.get_running_loop().call_soon
    with monkeypatch.context() as patch:
        patch.setattr("pybroker.sharing.work.SLICE_S", 0.0)
        sent = whole.send(request_, version)
        assert isinstance(sent, asyncio.Future), "others are served first"
        in_slices = whole.read(await sent, request_, version)
    whole.dispatcher._routes.clear()
    monkeypatch.setattr(dispatch, "load_api", lambda key: dataclasses.replace(load_api(key), pieces=None))
    at_once = whole.send(request_, version)
    assert not isinstance(at_once, asyncio.Future)
    at_once = whole.read(at_once, request_, version)
    if isinstance(request_, DeleteGroupsRequest):  # in the order of the groups' coordinators
        for response in (in_slices, at_once):
            response.results.sort(key=lambda result: result.group_id)
    if isinstance(request_, DescribeLogDirsRequest):  # other tests use the volume meanwhile
        for response in (in_slices, at_once):
            response.results[0].usable_bytes = 0
    assert encode_response(in_slices, version, 0) == encode_response(at_once, version, 0)


async def test_a_group_that_fails_between_two_pieces_fails_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybroker.sharing.work.SLICE_S", 0.0)
    whole = await broker(tmp_path)
    await whole.ask(joining(), 1)
    asked = group(GROUP, *[1] * 2_000)
    asked.member_id, asked.member_epoch = "m", 1
    request = OffsetFetchRequest(groups=[asked, group("h", *[1] * 200)])
    sent = whole.send(request, 9)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not sent.done()
    await whole.ask(joining(member_epoch=-1, subscribed_topic_names=None, topic_partitions=None), 1)
    first, second = whole.read(await sent, request, 9).groups
    assert (first.group_id, first.error_code, first.topics) == (GROUP, ErrorCode.UNKNOWN_MEMBER_ID, [])
    assert (second.error_code, len(second.topics)) == (0, 200)


async def test_a_commit_between_two_pieces_is_seen_by_those_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybroker.sharing.work.SLICE_S", 0.0)
    whole = await broker(tmp_path)
    asked = group(GROUP, *[1] * 2_000)
    assert asked.topics is not None
    asked.topics.append(asked.topics[0])
    request = OffsetFetchRequest(groups=[asked])
    sent = whole.send(request, 8)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not sent.done()
    await whole.ask(commit_request(offset=5), 8)
    (found,) = whole.read(await sent, request, 8).groups
    assert [found.topics[place].partitions[0].committed_offset for place in (0, -1)] == [-1, 5]


WITH_PIECES = [key for key, api in APIS.items() if api.name not in ALONE]


def test_every_api_whose_elements_are_independent_has_pieces() -> None:
    assert {key for key in APIS if load_api(key).pieces is not None} == {*WITH_PIECES}


@pytest.mark.parametrize("key", WITH_PIECES)
def test_the_lists_of_pieces_exist(key: int) -> None:
    api = load_api(key)
    assert api.pieces is not None
    for asked, responded in api.pieces._ways:
        for cls, path in ((api.request, asked), (api.response, responded)):
            for name in path:
                fields = {field.name: field for field in cls.__schema__.fields}
                assert fields[name].is_array, (cls, name)
                cls = fields[name].struct
