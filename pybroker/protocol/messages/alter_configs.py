"""AlterConfigs (key 33): replace all settings of resources; a setting that is not named returns to its default."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int8, Int16, Int32


class AlterableConfig(Struct):
    """A setting."""

    name: str = field()
    value: str | None = field()


class AlterConfigsResource(Struct):
    """A resource with all its new settings."""

    resource_type: Int8 = field()  # as in DescribeConfigs
    resource_name: str = field()
    configs: list[AlterableConfig] = field()


class AlterConfigsRequest(Request, api_key=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"):
    """Resources to change, each on its own: some may fail."""

    resources: list[AlterConfigsResource] = field()
    validate_only: Bool = field()


class AlterConfigsResourceResponse(Struct):
    """The result for one resource."""

    error_code: Int16 = field()
    error_message: str | None = field()
    resource_type: Int8 = field()
    resource_name: str = field()


class AlterConfigsResponse(Response, api_key=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"):
    """One result per resource."""

    throttle_time_ms: Int32 = field()
    responses: list[AlterConfigsResourceResponse] = field()
