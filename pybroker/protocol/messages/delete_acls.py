"""DeleteAcls (key 31): the removal of rules of access (KIP-140)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int8, Int16, Int32


class DeleteAclsFilter(Struct):
    """A filter; null matches all."""

    resource_type_filter: Int8 = field()
    resource_name_filter: str | None = field()
    pattern_type_filter: Int8 = field("1+", default=3)  # 3: literal
    principal_filter: str | None = field()
    host_filter: str | None = field()
    operation: Int8 = field()
    permission_type: Int8 = field()


class DeleteAclsRequest(Request, api_key=ApiKey.DELETE_ACLS, versions="0-3", flexible="2+"):
    """Filters, whose rules are to be removed."""

    filters: list[DeleteAclsFilter] = field()


class DeleteAclsMatchingAcl(Struct):
    """A rule that matches."""

    error_code: Int16 = field()
    error_message: str | None = field()
    resource_type: Int8 = field()
    resource_name: str = field()
    pattern_type: Int8 = field("1+", default=3)  # 3: literal
    principal: str = field()
    host: str = field()
    operation: Int8 = field()
    permission_type: Int8 = field()


class DeleteAclsFilterResult(Struct):
    """The result for one filter."""

    error_code: Int16 = field()
    error_message: str | None = field()
    matching_acls: list[DeleteAclsMatchingAcl] = field()


class DeleteAclsResponse(Response, api_key=ApiKey.DELETE_ACLS, versions="0-3", flexible="2+"):
    """One result per filter, in the order of the request."""

    throttle_time_ms: Int32 = field()
    filter_results: list[DeleteAclsFilterResult] = field()
