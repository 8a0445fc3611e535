"""Produce (key 0): append record batches. v0-2 carry message sets of the old formats."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32, Int64, Records, Uuid


class PartitionProduceData(Struct):
    """The records for one partition."""

    index: Int32 = field()
    records: Records = field()


class TopicProduceData(Struct):
    """The records for one topic, by name up to v12, then by id."""

    name: str = field("0-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = field()


class ProduceRequest(Request, api_key=ApiKey.PRODUCE, versions="0-13", flexible="9+"):
    """Records for any number of partitions."""

    transactional_id: str | None = field("3+", default=None)
    acks: Int16 = field()  # 0, 1 or -1 (all in-sync replicas)
    timeout_ms: Int32 = field()
    topic_data: list[TopicProduceData] = field()


class BatchIndexAndErrorMessage(Struct):
    """Why one record was refused."""

    batch_index: Int32 = field("8+")
    batch_index_error_message: str | None = field("8+", default=None)


class LeaderIdAndEpoch(Struct):
    """The partition's new leader."""

    leader_id: Int32 = field("10+", default=-1)
    leader_epoch: Int32 = field("10+", default=-1)


class PartitionProduceResponse(Struct):
    """The result for one partition's records."""

    index: Int32 = field()
    error_code: Int16 = field()
    base_offset: Int64 = field()  # of the first record
    log_append_time_ms: Int64 = field("2+", default=-1, ignorable=True)  # -1: the records keep their own timestamps
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", ignorable=True)  # the records that caused a refusal
    error_message: str | None = field("8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = field("10+", tag=0)


class TopicProduceResponse(Struct):
    """The partitions of one topic."""

    name: str = field("0-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = field()


class NodeEndpoint(Struct):
    """The address of a leader named in this response."""

    node_id: Int32 = field("10+")
    host: str = field("10+")
    port: Int32 = field("10+")
    rack: str | None = field("10+", default=None)


class ProduceResponse(Response, api_key=ApiKey.PRODUCE, versions="0-13", flexible="9+"):
    """One result per partition. A request with acks=0 gets no response."""

    responses: list[TopicProduceResponse] = field()
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0)
