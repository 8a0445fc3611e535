"""DescribeAcls (key 29): the rules of access that match a filter (KIP-140)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int8, Int16, Int32


class DescribeAclsRequest(Request, api_key=ApiKey.DESCRIBE_ACLS, versions="0-3", flexible="2+"):
    """A filter; null matches all."""

    resource_type_filter: Int8 = field()
    resource_name_filter: str | None = field()
    pattern_type_filter: Int8 = field("1+", default=3)  # 3: literal
    principal_filter: str | None = field()
    host_filter: str | None = field()
    operation: Int8 = field()
    permission_type: Int8 = field()


class AclDescription(Struct):
    """A rule about one resource."""

    principal: str = field()
    host: str = field()
    operation: Int8 = field()
    permission_type: Int8 = field()


class DescribeAclsResource(Struct):
    """The rules about one resource, or about those of a pattern."""

    resource_type: Int8 = field()
    resource_name: str = field()
    pattern_type: Int8 = field("1+", default=3)  # 3: literal
    acls: list[AclDescription] = field()


class DescribeAclsResponse(Response, api_key=ApiKey.DESCRIBE_ACLS, versions="0-3", flexible="2+"):
    """The rules that match, by resource."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    resources: list[DescribeAclsResource] = field()
