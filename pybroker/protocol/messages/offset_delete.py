"""OffsetDelete (key 47): delete a group's offsets of topics that it does not read."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32


class OffsetDeleteRequestPartition(Struct):
    """A partition."""

    partition_index: Int32 = field()


class OffsetDeleteRequestTopic(Struct):
    """Partitions of one topic."""

    name: str = field()
    partitions: list[OffsetDeleteRequestPartition] = field()


class OffsetDeleteRequest(Request, api_key=ApiKey.OFFSET_DELETE, versions="0", flexible="none"):
    """Offsets of one group to delete."""

    group_id: str = field()
    topics: list[OffsetDeleteRequestTopic] = field()


class OffsetDeleteResponsePartition(Struct):
    """The result for one partition's offset."""

    partition_index: Int32 = field()
    error_code: Int16 = field()


class OffsetDeleteResponseTopic(Struct):
    """The partitions of one topic."""

    name: str = field()
    partitions: list[OffsetDeleteResponsePartition] = field()


class OffsetDeleteResponse(Response, api_key=ApiKey.OFFSET_DELETE, versions="0", flexible="none"):
    """One result per partition, none if there is an error for the group."""

    error_code: Int16 = field()
    throttle_time_ms: Int32 = field(ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = field()
