"""OffsetFetch (key 9): how far groups have read. One group up to v7, any number from v8."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int16, Int32, Int64, Uuid


class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic, up to v7."""

    name: str = field("0-7")
    partition_indexes: list[Int32] = field("0-7")


class OffsetFetchRequestTopics(Struct):
    """Partitions of one topic of one group, from v8; by name up to v9, then by id."""

    name: str = field("8-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partition_indexes: list[Int32] = field("8+")


class OffsetFetchRequestGroup(Struct):
    """A group, and the partitions whose offsets to return."""

    group_id: str = field("8+")
    member_id: str | None = field("9+", default=None, ignorable=True)  # null: the request is from outside of the group
    member_epoch: Int32 = field("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field("8+")  # null: all that have offsets


class OffsetFetchRequest(Request, api_key=ApiKey.OFFSET_FETCH, versions="0-10", flexible="6+"):
    """The groups and partitions whose offsets to return."""

    group_id: str = field("0-7")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7")  # null: all that have offsets
    groups: list[OffsetFetchRequestGroup] = field("8+")
    require_stable: Bool = field("7+")  # refuse partitions with offsets of an open transaction


class OffsetFetchResponsePartition(Struct):
    """The offset of one partition, up to v7."""

    partition_index: Int32 = field("0-7")
    committed_offset: Int64 = field("0-7")  # -1: none
    committed_leader_epoch: Int32 = field("5-7", default=-1, ignorable=True)
    metadata: str | None = field("0-7")
    error_code: Int16 = field("0-7")


class OffsetFetchResponseTopic(Struct):
    """The partitions of one topic, up to v7."""

    name: str = field("0-7")
    partitions: list[OffsetFetchResponsePartition] = field("0-7")


class OffsetFetchResponsePartitions(Struct):
    """The offset of one partition, from v8."""

    partition_index: Int32 = field("8+")
    committed_offset: Int64 = field("8+")  # -1: none
    committed_leader_epoch: Int32 = field("8+", default=-1, ignorable=True)
    metadata: str | None = field("8+")
    error_code: Int16 = field("8+")


class OffsetFetchResponseTopics(Struct):
    """The partitions of one topic of one group, named as in the request."""

    name: str = field("8-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field("8+")


class OffsetFetchResponseGroup(Struct):
    """The offsets of one group."""

    group_id: str = field("8+")
    topics: list[OffsetFetchResponseTopics] = field("8+")
    error_code: Int16 = field("8+")


class OffsetFetchResponse(Response, api_key=ApiKey.OFFSET_FETCH, versions="0-10", flexible="6+"):
    """Offsets; a partition without one has -1."""

    throttle_time_ms: Int32 = field("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field("0-7")
    error_code: Int16 = field("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field("8+")
