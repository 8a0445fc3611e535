"""Metadata (key 3): brokers, topics, partitions and their leaders."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int16, Int32, Uuid


class MetadataRequestTopic(Struct):
    """A topic by name or, from v10, by id."""

    topic_id: Uuid = field("10+", ignorable=True)
    name: str | None = field(nullable="10+")


class MetadataRequest(Request, api_key=ApiKey.METADATA, versions="0-13", flexible="9+"):
    """Some topics, or all of them."""

    topics: list[MetadataRequestTopic] | None = field(nullable="1+")  # null, and in v0 empty: all topics
    allow_auto_topic_creation: Bool = field("4+", default=True)
    include_cluster_authorized_operations: Bool = field("8-10")
    include_topic_authorized_operations: Bool = field("8+")


class MetadataResponseBroker(Struct):
    """A live broker, with its address at the listener of the request."""

    node_id: Int32 = field()
    host: str = field()
    port: Int32 = field()
    rack: str | None = field("1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    """A partition and its replicas."""

    error_code: Int16 = field()
    partition_index: Int32 = field()
    leader_id: Int32 = field()  # -1: none
    leader_epoch: Int32 = field("7+", default=-1, ignorable=True)
    replica_nodes: list[Int32] = field()
    isr_nodes: list[Int32] = field()  # the replicas in sync
    offline_replicas: list[Int32] = field("5+", ignorable=True)


class MetadataResponseTopic(Struct):
    """A topic with its partitions."""

    error_code: Int16 = field()
    name: str | None = field(nullable="12+")  # null: the id is not known
    topic_id: Uuid = field("10+", ignorable=True)  # zero: the name is not known
    is_internal: Bool = field("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = field()
    topic_authorized_operations: Int32 = field("8+", default=-2147483648)  # a bit field; the default: was not requested


class MetadataResponse(Response, api_key=ApiKey.METADATA, versions="0-13", flexible="9+"):
    """The cluster as this broker sees it."""

    throttle_time_ms: Int32 = field("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = field()
    cluster_id: str | None = field("2+", default=None, ignorable=True)
    controller_id: Int32 = field("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = field()
    cluster_authorized_operations: Int32 = field("8-10", default=-2147483648)  # a bit field; the default: was not requested
    error_code: Int16 = field("13+", ignorable=True)
