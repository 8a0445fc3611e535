"""CreatePartitions (key 37): give topics more partitions."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int16, Int32


class CreatePartitionsAssignment(Struct):
    """The brokers of one new partition."""

    broker_ids: list[Int32] = field()


class CreatePartitionsTopic(Struct):
    """A topic that is to have more partitions."""

    name: str = field()
    count: Int32 = field()  # of all partitions, the existing ones included
    assignments: list[CreatePartitionsAssignment] | None = field()  # of the new partitions; null: the broker assigns


class CreatePartitionsRequest(Request, api_key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    """Topics to enlarge, each on its own: some may fail."""

    topics: list[CreatePartitionsTopic] = field()
    timeout_ms: Int32 = field()
    validate_only: Bool = field()


class CreatePartitionsTopicResult(Struct):
    """The result for one topic."""

    name: str = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)


class CreatePartitionsResponse(Response, api_key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    """One result per topic."""

    throttle_time_ms: Int32 = field()
    results: list[CreatePartitionsTopicResult] = field()
