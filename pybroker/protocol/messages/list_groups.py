"""ListGroups (key 16): the groups that this broker coordinates."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32


class ListGroupsRequest(Request, api_key=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    """The states and types of groups to list; an empty filter lets everything through."""

    states_filter: list[str] = field("4+")
    types_filter: list[str] = field("5+")


class ListedGroup(Struct):
    """A group."""

    group_id: str = field()
    protocol_type: str = field()
    group_state: str = field("4+", ignorable=True)
    group_type: str = field("5+", ignorable=True)  # classic, consumer, share or streams


class ListGroupsResponse(Response, api_key=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    """The groups that pass the filters."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field()
    groups: list[ListedGroup] = field()
