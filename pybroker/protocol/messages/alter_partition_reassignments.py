"""AlterPartitionReassignments (key 45): move partitions to other brokers, or stop that (KIP-455)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int16, Int32


class ReassignablePartition(Struct):
    """A partition and the brokers to move it to."""

    partition_index: Int32 = field()
    replicas: list[Int32] | None = field(default=None)  # null: stop the move that is under way


class ReassignableTopic(Struct):
    """Partitions of one topic."""

    name: str = field()
    partitions: list[ReassignablePartition] = field()


class AlterPartitionReassignmentsRequest(Request, api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+"):
    """Partitions to move, each on its own: some may fail."""

    timeout_ms: Int32 = field(default=60000)
    allow_replication_factor_change: Bool = field("1+", default=True)  # KIP-860
    topics: list[ReassignableTopic] = field()


class ReassignablePartitionResponse(Struct):
    """Whether the move of one partition began."""

    partition_index: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()


class ReassignableTopicResponse(Struct):
    """The partitions of one topic."""

    name: str = field()
    partitions: list[ReassignablePartitionResponse] = field()


class AlterPartitionReassignmentsResponse(Response, api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+"):
    """One result per partition."""

    throttle_time_ms: Int32 = field()
    allow_replication_factor_change: Bool = field("1+", default=True, ignorable=True)  # as in the request
    error_code: Int16 = field()
    error_message: str | None = field()
    responses: list[ReassignableTopicResponse] = field()
