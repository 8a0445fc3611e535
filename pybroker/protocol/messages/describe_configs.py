"""DescribeConfigs (key 32): the settings of topics, brokers and other resources. v0 is Kafka 3.9's."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int8, Int16, Int32


class DescribeConfigsResource(Struct):
    """A resource, and which of its settings to describe."""

    resource_type: Int8 = field()  # 2: topic, 4: broker, 8: broker logger, 16: client metrics, 32: group
    resource_name: str = field()  # empty for broker: the defaults of all brokers
    configuration_keys: list[str] | None = field()  # null: all


class DescribeConfigsRequest(Request, api_key=ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible="4+"):
    """Resources whose settings to describe."""

    resources: list[DescribeConfigsResource] = field()
    include_synonyms: Bool = field("1+")
    include_documentation: Bool = field("3+")


class DescribeConfigsSynonym(Struct):
    """A source that gives the setting a value; the first source is in force."""

    name: str = field("1+")
    value: str | None = field("1+")
    source: Int8 = field("1+")


class DescribeConfigsResourceResult(Struct):
    """A setting."""

    name: str = field()
    value: str | None = field()  # null: none, or a secret
    read_only: Bool = field()
    is_default: Bool = field("0", ignorable=True)
    # 1: topic, 2: this broker, dynamic, 3: all brokers, dynamic, 4: this broker, at its start, 5: the default, 6: broker logger,
    # 7: client metrics, 8: group
    config_source: Int8 = field("1+", default=-1, ignorable=True)
    is_sensitive: Bool = field()
    synonyms: list[DescribeConfigsSynonym] = field("1+", ignorable=True)
    # 1: boolean, 2: string, 3: int, 4: short, 5: long, 6: double, 7: list, 8: class, 9: password
    config_type: Int8 = field("3+", ignorable=True)
    documentation: str | None = field("3+", ignorable=True)


class DescribeConfigsResult(Struct):
    """The settings of one resource."""

    error_code: Int16 = field()
    error_message: str | None = field()
    resource_type: Int8 = field()
    resource_name: str = field()
    configs: list[DescribeConfigsResourceResult] = field()


class DescribeConfigsResponse(Response, api_key=ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible="4+"):
    """One result per resource."""

    throttle_time_ms: Int32 = field()
    results: list[DescribeConfigsResult] = field()
