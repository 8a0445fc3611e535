"""DeleteGroups (key 42): delete empty groups with their offsets."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32


class DeleteGroupsRequest(Request, api_key=ApiKey.DELETE_GROUPS, versions="0-3", flexible="2+"):
    """Groups to delete, each on its own: some may fail."""

    groups_names: list[str] = field()


class DeletableGroupResult(Struct):
    """The result for one group."""

    group_id: str = field()
    error_code: Int16 = field()
    error_message: str | None = field("3+", default=None, ignorable=True)


class DeleteGroupsResponse(Response, api_key=ApiKey.DELETE_GROUPS, versions="0-3", flexible="2+"):
    """One result per group."""

    throttle_time_ms: Int32 = field()
    results: list[DeletableGroupResult] = field()
