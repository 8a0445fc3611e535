"""CreateTopics (key 19): create topics, or only check that they could be."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int8, Int16, Int32, Uuid


class CreatableReplicaAssignment(Struct):
    """The brokers of one partition."""

    partition_index: Int32 = field()
    broker_ids: list[Int32] = field()


class CreatableTopicConfig(Struct):
    """A setting of the new topic."""

    name: str = field()
    value: str | None = field()


class CreatableTopic(Struct):
    """A topic to create."""

    name: str = field()
    num_partitions: Int32 = field()  # -1: the default, or as assigned
    replication_factor: Int16 = field()  # -1: the default, or as assigned
    assignments: list[CreatableReplicaAssignment] = field()  # empty: the broker assigns
    configs: list[CreatableTopicConfig] = field()


class CreateTopicsRequest(Request, api_key=ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+"):
    """Topics to create, each on its own: some may fail."""

    topics: list[CreatableTopic] = field()
    timeout_ms: Int32 = field(default=60000)
    validate_only: Bool = field("1+")


class CreatableTopicConfigs(Struct):
    """A setting that is in force for the topic."""

    name: str = field("5+")
    value: str | None = field("5+")
    read_only: Bool = field("5+")
    config_source: Int8 = field("5+", default=-1, ignorable=True)
    is_sensitive: Bool = field("5+")


class CreatableTopicResult(Struct):
    """The result for one topic."""

    name: str = field()
    topic_id: Uuid = field("7+", ignorable=True)
    error_code: Int16 = field()
    error_message: str | None = field("1+", ignorable=True)
    topic_config_error_code: Int16 = field("5+", tag=0, ignorable=True)  # why `configs` is null
    num_partitions: Int32 = field("5+", default=-1, ignorable=True)
    replication_factor: Int16 = field("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field("5+", ignorable=True)


class CreateTopicsResponse(Response, api_key=ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+"):
    """One result per topic."""

    throttle_time_ms: Int32 = field("2+", ignorable=True)
    topics: list[CreatableTopicResult] = field()
