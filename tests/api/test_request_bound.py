"""The bound on the elements of a request: what stock clients send for 10,000 partitions passes, and more closes the connection.

The requests are as Kafka's Java clients, a follower or a transaction coordinator build them. Most have one partition for each
topic, so that a partition is two elements.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.codec import DecodeError, TooManyElementsError, decode, encode
from pybroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pybroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pybroker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pybroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pybroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pybroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from pybroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pybroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pybroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pybroker.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from testing.scenes.api.groups import broker
from testing.scenes.api.whole import frame_of, settled
from testing.scenes.logs import batch

ELEMENTS_MAX = BrokerConfig().pybroker_request_elements_max
NAMES = [f"orders-of-a-customer-{number:05}" for number in range(10_000)]
IDS = [number.to_bytes(16) for number in range(1, 10_001)]
MEMBERS = 5_000
TOPIC = 2


def fetch_partition() -> FetchPartition:
    return FetchPartition(partition=0, current_leader_epoch=3, fetch_offset=10, log_start_offset=0, partition_max_bytes=1 << 20)


def fetched() -> list[FetchTopic]:
    return [FetchTopic(topic_id=topic_id, partitions=[fetch_partition()]) for topic_id in IDS]


def forgotten(count: int) -> list[ForgottenTopic]:
    return [ForgottenTopic(topic_id=topic_id, partitions=[0]) for topic_id in IDS[:count]]


def fetch(**fields: Any) -> FetchRequest:
    return FetchRequest(max_wait_ms=500, min_bytes=1, session_epoch=0, topics=fetched(), **fields)


def commit() -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=10, committed_leader_epoch=3)
    topics = [OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in NAMES]
    return OffsetCommitRequest(group_id="group", generation_id_or_member_epoch=1, member_id="member", topics=topics)


def transactional_commit() -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=10, committed_leader_epoch=3)
    topics = [TxnOffsetCommitRequestTopic(name=name, partitions=[partition]) for name in NAMES]
    return TxnOffsetCommitRequest(transactional_id="id", group_id="group", producer_id=1, producer_epoch=0, topics=topics)


def offset_fetch() -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in NAMES]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="group", topics=topics)], require_stable=True)


def added() -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in NAMES]
    one = AddPartitionsToTxnTransaction(transactional_id="id", producer_id=1, producer_epoch=0, verify_only=False, topics=topics)
    return AddPartitionsToTxnRequest(transactions=[one])


def markers() -> WriteTxnMarkersRequest:
    topics = [WritableTxnMarkerTopic(name=name, partition_indexes=[0]) for name in NAMES]
    one = WritableTxnMarker(producer_id=1, producer_epoch=0, transaction_result=True, topics=topics, coordinator_epoch=0)
    return WriteTxnMarkersRequest(markers=[one])


def assignments() -> SyncGroupRequest:
    """Return a leader's request: the subscription of each member of a sticky group is some 500 bytes."""
    each = [SyncGroupRequestAssignment(member_id=f"consumer-{number}", assignment=bytes(500)) for number in range(MEMBERS)]
    return SyncGroupRequest(group_id="group", generation_id=1, member_id="consumer-0", assignments=each)


def created() -> CreateTopicsRequest:
    config = CreatableTopicConfig(name="retention.ms", value="86400000")
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=-1, assignments=[], configs=[config]) for name in NAMES
    ]
    return CreateTopicsRequest(topics=topics, validate_only=False)


def altered() -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name="retention.ms", config_operation=0, value="86400000")
    resources = [AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[config]) for name in NAMES]
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=False)


def described() -> DescribeConfigsRequest:
    resources = [DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None) for name in NAMES]
    return DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=False)


def reassigned() -> AlterPartitionReassignmentsRequest:
    """Return what `kafka-reassign-partitions` sends for 1,000 topics of ten partitions."""
    partitions = [ReassignablePartition(partition_index=index, replicas=[1]) for index in range(10)]
    topics = [ReassignableTopic(name=name, partitions=partitions) for name in NAMES[:1_000]]
    return AlterPartitionReassignmentsRequest(timeout_ms=60_000, topics=topics)


def listed() -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[partition]) for name in NAMES])


def produced() -> ProduceRequest:
    topics = [TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch())]) for name in NAMES]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)


def metadata() -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in NAMES], allow_auto_topic_creation=False)


HONEST = {
    "createTopics": (created(), 7),
    "describeTopics": (DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in NAMES]), 0),
    "describeTopics of an older client": (metadata(), 12),
    "deleteTopics": (DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in NAMES], timeout_ms=60_000), 6),
    "listOffsets": (listed(), 7),
    "describeConfigs": (described(), 4),
    "incrementalAlterConfigs": (altered(), 1),
    "alterPartitionReassignments": (reassigned(), 0),
    "a consumer's full fetch": (fetch(), 13),
    "a consumer's fetch after it lost 2,000 partitions": (fetch(forgotten_topics_data=forgotten(2_000)), 13),
    "a follower's full fetch": (fetch(replica_state=ReplicaState(replica_id=2, replica_epoch=5)), 17),
    "the assignments of a group of 5,000": (assignments(), 5),
    "a consumer's commit": (commit(), 9),
    "a consumer's look at its commits": (offset_fetch(), 9),
    "the commit of a transaction": (transactional_commit(), 4),
    "the partitions of a transaction": (added(), 4),
    "the markers of a transaction": (markers(), 1),
    "records of 10,000 partitions": (produced(), 11),
}


@pytest.mark.parametrize(("request_", "version"), HONEST.values(), ids=HONEST)
def test_what_honest_clients_send_for_10_000_partitions_passes(request_: Any, version: int) -> None:
    body = memoryview(b"".join(encode(request_, version)))  # type: ignore[arg-type]  # no late parts
    assert isinstance(decode(type(request_), version, body, elements_max=ELEMENTS_MAX), type(request_))


@pytest.mark.parametrize("client_id", ["reader", None])
async def test_a_request_of_more_elements_closes_the_connection_with_one_line(tmp_path: Path, client_id: str | None) -> None:
    whole = await broker(tmp_path, auto_create_topics_enable=False)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=f"t{n}") for n in range(ELEMENTS_MAX + 1)])
    with pytest.raises(ProtocolViolation) as closed:
        await settled(whole.dispatcher.handle(whole.connection, frame_of(request, 11, client_id)))
    assert str(closed.value) == (
        f"Metadata v11 of client id {client_id!r} has more than 25000 elements, the value of pybroker.request.elements.max"
    )


async def test_a_request_of_as_many_elements_as_are_allowed_is_served(tmp_path: Path) -> None:
    whole = await broker(tmp_path, auto_create_topics_enable=False, pybroker_request_elements_max=100)
    names = [MetadataRequestTopic(name=f"t{number}") for number in range(101)]
    assert len((await whole.ask(MetadataRequest(topics=names[:100], allow_auto_topic_creation=False), 11)).topics) == 100
    with pytest.raises(ProtocolViolation, match="more than 100 elements"):
        await whole.ask(MetadataRequest(topics=names, allow_auto_topic_creation=False), 11)


def test_texts_count_by_the_kilobyte() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="n" * 10_000)])
    body = memoryview(b"".join(encode(request, 11)))  # type: ignore[arg-type]  # no late parts
    decode(MetadataRequest, 11, body, elements_max=10)
    with pytest.raises(TooManyElementsError):
        decode(MetadataRequest, 11, body, elements_max=9)
    assert issubclass(TooManyElementsError, DecodeError)
