"""CreateAcls (key 30): new rules of access (KIP-140)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int8, Int16, Int32


class AclCreation(Struct):
    """A rule."""

    resource_type: Int8 = field()
    resource_name: str = field()
    resource_pattern_type: Int8 = field("1+", default=3)  # 3: literal
    principal: str = field()
    host: str = field()
    operation: Int8 = field()
    permission_type: Int8 = field()


class CreateAclsRequest(Request, api_key=ApiKey.CREATE_ACLS, versions="0-3", flexible="2+"):
    """Rules to create, each on its own."""

    creations: list[AclCreation] = field()


class AclCreationResult(Struct):
    """The result for one rule."""

    error_code: Int16 = field()
    error_message: str | None = field()


class CreateAclsResponse(Response, api_key=ApiKey.CREATE_ACLS, versions="0-3", flexible="2+"):
    """One result per rule, in the order of the request."""

    throttle_time_ms: Int32 = field()
    results: list[AclCreationResult] = field()
