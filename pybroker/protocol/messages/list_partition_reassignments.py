"""ListPartitionReassignments (key 46): which partitions are being moved."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32


class ListPartitionReassignmentsTopics(Struct):
    """Partitions of one topic."""

    name: str = field()
    partition_indexes: list[Int32] = field()


class ListPartitionReassignmentsRequest(Request, api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"):
    """Some partitions, or all of them."""

    timeout_ms: Int32 = field(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(default=None)  # null: all


class OngoingPartitionReassignment(Struct):
    """A partition that is being moved."""

    partition_index: Int32 = field()
    replicas: list[Int32] = field()  # all replicas, also those to be added and to be removed
    adding_replicas: list[Int32] = field()
    removing_replicas: list[Int32] = field()


class OngoingTopicReassignment(Struct):
    """The partitions of one topic."""

    name: str = field()
    partitions: list[OngoingPartitionReassignment] = field()


class ListPartitionReassignmentsResponse(Response, api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"):
    """The requested partitions that are being moved."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    topics: list[OngoingTopicReassignment] = field()
