"""ListConfigResources (key 74): the resources that have settings; in v0, as ListClientMetricsResources, only client metrics."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int8, Int16, Int32


class ListConfigResourcesRequest(Request, api_key=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"):
    """The types of resources to list; empty: all types."""

    resource_types: list[Int8] = field("1+")  # as in DescribeConfigs


class ConfigResource(Struct):
    """A resource."""

    resource_name: str = field()
    resource_type: Int8 = field("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Response, api_key=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"):
    """The resources."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    config_resources: list[ConfigResource] = field()
