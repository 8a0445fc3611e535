"""ListOffsets (key 2): offsets by timestamp. v0 returns a list of segment starts."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int8, Int16, Int32, Int64


class ListOffsetsPartition(Struct):
    """A timestamp to look up in one partition."""

    partition_index: Int32 = field()
    current_leader_epoch: Int32 = field("4+", default=-1, ignorable=True)  # -1: unknown, not checked
    timestamp: Int64 = field()  # in ms; negative: a special offset, listed in the handler
    max_num_offsets: Int32 = field("0", default=1)


class ListOffsetsTopic(Struct):
    """The partitions of one topic."""

    name: str = field()
    partitions: list[ListOffsetsPartition] = field()


class ListOffsetsRequest(Request, api_key=ApiKey.LIST_OFFSETS, versions="0-11", flexible="6+"):
    """Lookups of the first record at or after a timestamp."""

    replica_id: Int32 = field()  # -1: a consumer
    isolation_level: Int8 = field("2+")  # 0: read uncommitted, 1: read committed
    topics: list[ListOffsetsTopic] = field()
    timeout_ms: Int32 = field("10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    """The result for one partition."""

    partition_index: Int32 = field()
    error_code: Int16 = field()
    old_style_offsets: list[Int64] = field("0")
    timestamp: Int64 = field("1+", default=-1)
    offset: Int64 = field("1+", default=-1)  # -1: there is none
    leader_epoch: Int32 = field("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    """The partitions of one topic."""

    name: str = field()
    partitions: list[ListOffsetsPartitionResponse] = field()


class ListOffsetsResponse(Response, api_key=ApiKey.LIST_OFFSETS, versions="0-11", flexible="6+"):
    """Offsets, with their timestamps from v1."""

    throttle_time_ms: Int32 = field("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field()
