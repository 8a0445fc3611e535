"""ListPartitionReassignments (key 46): which partitions are being moved."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import field, request, response, struct
from pybroker.protocol.wire import Int16, Int32


@struct
class ListPartitionReassignmentsTopics:
    """Partitions of one topic."""

    name: str = field()
    partition_indexes: list[Int32] = field()


@request(api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """Asks for some partitions or for all of them."""

    timeout_ms: Int32 = field(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(default=None)  # null: all


@struct
class OngoingPartitionReassignment:
    """A partition that is being moved."""

    partition_index: Int32 = field()
    replicas: list[Int32] = field()  # all, those to come and those to go among them
    adding_replicas: list[Int32] = field()
    removing_replicas: list[Int32] = field()


@struct
class OngoingTopicReassignment:
    """The partitions of one topic."""

    name: str = field()
    partitions: list[OngoingPartitionReassignment] = field()


@response(api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    """What is being moved, of what was asked for."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    topics: list[OngoingTopicReassignment] = field()
