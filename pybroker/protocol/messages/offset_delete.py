"""OffsetDelete (key 47): delete a group's offsets of topics that it does not read."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import field, request, response, struct
from pybroker.protocol.wire import Int16, Int32


@struct
class OffsetDeleteRequestPartition:
    """A partition."""

    partition_index: Int32 = field()


@struct
class OffsetDeleteRequestTopic:
    """Partitions of one topic."""

    name: str = field()
    partitions: list[OffsetDeleteRequestPartition] = field()


@request(api_key=ApiKey.OFFSET_DELETE, versions="0", flexible="none")
class OffsetDeleteRequest:
    """Offsets of one group to delete."""

    group_id: str = field()
    topics: list[OffsetDeleteRequestTopic] = field()


@struct
class OffsetDeleteResponsePartition:
    """The result for one partition's offset."""

    partition_index: Int32 = field()
    error_code: Int16 = field()


@struct
class OffsetDeleteResponseTopic:
    """The partitions of one topic."""

    name: str = field()
    partitions: list[OffsetDeleteResponsePartition] = field()


@response(api_key=ApiKey.OFFSET_DELETE, versions="0", flexible="none")
class OffsetDeleteResponse:
    """One result per partition, none if there is an error for the group."""

    error_code: Int16 = field()
    throttle_time_ms: Int32 = field(ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = field()
