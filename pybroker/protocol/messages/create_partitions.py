"""CreatePartitions (key 37): give topics more partitions."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import field, request, response, struct
from pybroker.protocol.wire import Bool, Int16, Int32


@struct
class CreatePartitionsAssignment:
    """The brokers that shall hold one new partition."""

    broker_ids: list[Int32] = field()


@struct
class CreatePartitionsTopic:
    """A topic that shall have more partitions."""

    name: str = field()
    count: Int32 = field()  # of all, with those that are there
    assignments: list[CreatePartitionsAssignment] | None = field()  # of the new ones; null: the broker assigns


@request(api_key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """Topics to enlarge, each on its own: some may fail."""

    topics: list[CreatePartitionsTopic] = field()
    timeout_ms: Int32 = field()
    validate_only: Bool = field()


@struct
class CreatePartitionsTopicResult:
    """What became of one topic."""

    name: str = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)


@response(api_key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """One result per topic."""

    throttle_time_ms: Int32 = field()
    results: list[CreatePartitionsTopicResult] = field()
