"""CreatePartitions (key 37): give topics more partitions."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import field, request, response, struct
from pybroker.protocol.wire import Bool, Int16, Int32


@struct
class CreatePartitionsAssignment:
    """The brokers of one new partition."""

    broker_ids: list[Int32] = field()


@struct
class CreatePartitionsTopic:
    """A topic that is to have more partitions."""

    name: str = field()
    count: Int32 = field()  # of all partitions, the existing ones included
    assignments: list[CreatePartitionsAssignment] | None = field()  # of the new partitions; null: the broker assigns


@request(api_key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """Topics to enlarge, each on its own: some may fail."""

    topics: list[CreatePartitionsTopic] = field()
    timeout_ms: Int32 = field()
    validate_only: Bool = field()


@struct
class CreatePartitionsTopicResult:
    """The result for one topic."""

    name: str = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)


@response(api_key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """One result per topic."""

    throttle_time_ms: Int32 = field()
    results: list[CreatePartitionsTopicResult] = field()
