"""DescribeProducers (key 61): the producers that a partition's log remembers (KIP-664)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32, Int64


class TopicRequest(Struct):
    """Partitions of one topic."""

    name: str = field()
    partition_indexes: list[Int32] = field()


class DescribeProducersRequest(Request, api_key=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"):
    """Partitions whose producers to describe."""

    topics: list[TopicRequest] = field()


class ProducerState(Struct):
    """A producer with an id."""

    producer_id: Int64 = field()
    producer_epoch: Int32 = field()
    last_sequence: Int32 = field(default=-1)
    last_timestamp: Int64 = field(default=-1)  # ms
    coordinator_epoch: Int32 = field()
    current_txn_start_offset: Int64 = field(default=-1)  # -1: no transaction is open


class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    active_producers: list[ProducerState] = field()


class TopicResponse(Struct):
    """The partitions of one topic."""

    name: str = field()
    partitions: list[PartitionResponse] = field()


class DescribeProducersResponse(Response, api_key=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"):
    """One result per partition."""

    throttle_time_ms: Int32 = field()
    topics: list[TopicResponse] = field()
