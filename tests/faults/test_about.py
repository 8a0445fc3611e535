"""The names in requests are found in all their forms."""

from __future__ import annotations

import pytest

from pybroker.faults.about import About, about
from pybroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pybroker.protocol.messages.api_versions import ApiVersionsRequest
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest
from pybroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pybroker.protocol.messages.describe_groups import DescribeGroupsRequest
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ORDERS = bytes(range(16))


def name_of(topic_id: bytes) -> str | None:
    return {ORDERS: "orders"}.get(topic_id)


def named(*topics: str, partitions: tuple[int, ...] = (), groups: tuple[str, ...] = (), ids: tuple[str, ...] = ()) -> About:
    return About(topics, frozenset((topic, number) for topic in topics for number in partitions), groups, ids)


def produced(*topics: TopicProduceData) -> ProduceRequest:
    return ProduceRequest(transactional_id="t", acks=1, timeout_ms=1, topic_data=[*topics])


def fetched(topic: FetchTopic) -> FetchRequest:
    return FetchRequest(max_wait_ms=1, min_bytes=1, topics=[topic])


DATA = [PartitionProduceData(index=0, records=memoryview(b"")), PartitionProduceData(index=3, records=memoryview(b""))]
FETCHED = [FetchPartition(partition=2, fetch_offset=0, partition_max_bytes=1)]
OF_GROUP = OffsetFetchRequestTopics(name="orders", partition_indexes=[1])
ADDED = AddPartitionsToTxnTopic(name="orders", partitions=[5])


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (ApiVersionsRequest(), named()),
        (produced(TopicProduceData(name="orders", partition_data=DATA)), named("orders", partitions=(0, 3), ids=("t",))),
        (produced(TopicProduceData(topic_id=ORDERS, partition_data=DATA[:1])), named("orders", partitions=(0,), ids=("t",))),
        (fetched(FetchTopic(topic="orders", partitions=FETCHED)), named("orders", partitions=(2,))),
        (fetched(FetchTopic(topic_id=ORDERS, partitions=FETCHED)), named("orders", partitions=(2,))),
        (fetched(FetchTopic(topic_id=bytes(16), partitions=FETCHED)), named()),
        (MetadataRequest(topics=None), named()),
        (MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in "aba"]), named("a", "b")),
        (DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=1), named("a", "b")),
        (DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=ORDERS)], timeout_ms=1), named("orders")),
        (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), named(groups=("g",))),
        (DescribeGroupsRequest(groups=["g", "h"]), named(groups=("g", "h"))),
        (DeleteGroupsRequest(groups_names=["g"]), named(groups=("g",))),
        (FindCoordinatorRequest(key="g", key_type=0), named(groups=("g",))),
        (FindCoordinatorRequest(coordinator_keys=["t", "u"], key_type=1), named(ids=("t", "u"))),
        (
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[OF_GROUP])]),
            named("orders", partitions=(1,), groups=("g",)),
        ),
        (
            AddPartitionsToTxnRequest(
                transactions=[
                    AddPartitionsToTxnTransaction(transactional_id="t", producer_id=1, producer_epoch=0, topics=[ADDED])
                ]
            ),
            named("orders", partitions=(5,), ids=("t",)),
        ),
        (
            AddPartitionsToTxnRequest(v3_and_below_transactional_id="t", v3_and_below_topics=[ADDED]),
            named("orders", partitions=(5,), ids=("t",)),
        ),
    ],
)
def test_what_a_request_names_is_found(request_: object, expected: About) -> None:
    assert about(request_, name_of) == expected
