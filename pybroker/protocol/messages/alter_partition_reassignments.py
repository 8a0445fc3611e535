"""AlterPartitionReassignments (key 45): move partitions to other brokers, or stop that (KIP-455)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import field, request, response, struct
from pybroker.protocol.wire import Bool, Int16, Int32


@struct
class ReassignablePartition:
    """A partition and the brokers to move it to."""

    partition_index: Int32 = field()
    replicas: list[Int32] | None = field(default=None)  # null: stop the move that is under way


@struct
class ReassignableTopic:
    """Partitions of one topic."""

    name: str = field()
    partitions: list[ReassignablePartition] = field()


@request(api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """Partitions to move, each on its own: some may fail."""

    timeout_ms: Int32 = field(default=60000)
    allow_replication_factor_change: Bool = field("1+", default=True)  # KIP-860
    topics: list[ReassignableTopic] = field()


@struct
class ReassignablePartitionResponse:
    """Whether the move of one partition began."""

    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()


@struct
class ReassignableTopicResponse:
    """The partitions of one topic."""

    name: str = field()
    partitions: list[ReassignablePartitionResponse] = field()


@response(api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    """One result per partition."""

    throttle_time_ms: Int32 = field()
    allow_replication_factor_change: Bool = field("1+", default=True, ignorable=True)  # as in the request
    error_code: Int16 = field()
    error_message: str | None = field()
    responses: list[ReassignableTopicResponse] = field()
