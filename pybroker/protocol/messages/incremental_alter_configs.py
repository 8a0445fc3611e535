"""IncrementalAlterConfigs (key 44): change some settings of resources (KIP-339)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.messages.alter_configs import AlterConfigsResourceResponse
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int8, Int32


class AlterableConfig(Struct):
    """A change of one setting."""

    name: str = field()
    config_operation: Int8 = field()  # 0: set, 1: return to the default, 2: add to the list, 3: take from the list
    value: str | None = field()


class AlterConfigsResource(Struct):
    """A resource and its changes."""

    resource_type: Int8 = field()  # as in DescribeConfigs
    resource_name: str = field()
    configs: list[AlterableConfig] = field()


class IncrementalAlterConfigsRequest(Request, api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"):
    """Resources to change, each on its own: some may fail."""

    resources: list[AlterConfigsResource] = field()
    validate_only: Bool = field()


class IncrementalAlterConfigsResponse(Response, api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"):
    """One result per resource."""

    throttle_time_ms: Int32 = field()
    responses: list[AlterConfigsResourceResponse] = field()
