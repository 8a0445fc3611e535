"""DescribeQuorum (key 55): the replicas of the metadata, and how far each of them is (KIP-595, KIP-836, KIP-853)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32, Int64, UInt16, Uuid


class PartitionData(Struct):
    """A partition of metadata."""

    partition_index: Int32 = field()


class TopicData(Struct):
    """A topic of metadata."""

    topic_name: str = field()
    partitions: list[PartitionData] = field()


class DescribeQuorumRequest(Request, api_key=ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible="0+"):
    """Partitions to describe; there is only that of `__cluster_metadata`."""

    topics: list[TopicData] = field()


class ReplicaState(Struct):
    """How far a replica is."""

    replica_id: Int32 = field()
    replica_directory_id: Uuid = field("2+")
    log_end_offset: Int64 = field()  # -1: unknown
    last_fetch_timestamp: Int64 = field("1+", default=-1, ignorable=True)  # ms; -1: unknown
    last_caught_up_timestamp: Int64 = field("1+", default=-1, ignorable=True)


class ResponsePartitionData(Struct):
    """A partition with its leader and its replicas."""

    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field("2+", ignorable=True)
    leader_id: Int32 = field()
    leader_epoch: Int32 = field()
    high_watermark: Int64 = field()
    current_voters: list[ReplicaState] = field()
    observers: list[ReplicaState] = field()


class ResponseTopicData(Struct):
    """A topic of metadata."""

    topic_name: str = field()
    partitions: list[ResponsePartitionData] = field()


class Listener(Struct):
    """An address of a voter."""

    name: str = field()
    host: str = field()
    port: UInt16 = field()


class Node(Struct):
    """A voter."""

    node_id: Int32 = field()
    listeners: list[Listener] = field()


class DescribeQuorumResponse(Response, api_key=ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible="0+"):
    """The quorum."""

    error_code: Int16 = field()
    error_message: str | None = field("2+", ignorable=True)
    topics: list[ResponseTopicData] = field()
    nodes: list[Node] = field("2+")
