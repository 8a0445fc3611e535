"""DescribeTopicPartitions (key 75): topics page by page."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int16, Int32, Uuid


class TopicRequest(Struct):
    """A topic by name."""

    name: str = field()


class Cursor(Struct):
    """Where the next page begins."""

    topic_name: str = field()
    partition_index: Int32 = field()


class DescribeTopicPartitionsRequest(Request, api_key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+"):
    """A request for the next page; no topics means all of them."""

    topics: list[TopicRequest] = field()
    response_partition_limit: Int32 = field(default=2000)
    cursor: Cursor | None = field(default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    """A partition and its replicas."""

    error_code: Int16 = field()
    partition_index: Int32 = field()
    leader_id: Int32 = field()
    leader_epoch: Int32 = field(default=-1)
    replica_nodes: list[Int32] = field()
    isr_nodes: list[Int32] = field()
    eligible_leader_replicas: list[Int32] | None = field(default=None)  # KIP-966
    last_known_elr: list[Int32] | None = field(default=None)
    offline_replicas: list[Int32] = field()


class DescribeTopicPartitionsResponseTopic(Struct):
    """A topic, or a part of its partitions."""

    error_code: Int16 = field()
    name: str | None = field()
    topic_id: Uuid = field()
    is_internal: Bool = field()
    partitions: list[DescribeTopicPartitionsResponsePartition] = field()
    topic_authorized_operations: Int32 = field(default=-2147483648)  # a bit field; the default: was not requested


class DescribeTopicPartitionsResponse(Response, api_key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+"):
    """One page."""

    throttle_time_ms: Int32 = field()
    topics: list[DescribeTopicPartitionsResponseTopic] = field()
    next_cursor: Cursor | None = field(default=None)  # null: this was the last page
