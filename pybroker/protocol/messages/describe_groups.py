"""DescribeGroups (key 15): state and members of classic groups."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int16, Int32


class DescribeGroupsRequest(Request, api_key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    """Names of the groups to describe."""

    groups: list[str] = field()
    include_authorized_operations: Bool = field("3+")


class DescribedGroupMember(Struct):
    """A member; metadata and assignment only while the group is stable."""

    member_id: str = field()
    group_instance_id: str | None = field("4+", default=None, ignorable=True)
    client_id: str = field()
    client_host: str = field()
    member_metadata: bytes = field()
    member_assignment: bytes = field()


class DescribedGroup(Struct):
    """A group."""

    error_code: Int16 = field()
    error_message: str | None = field("6+", default=None)
    group_id: str = field()
    group_state: str = field()  # Empty, PreparingRebalance, CompletingRebalance, Stable or Dead
    protocol_type: str = field()
    protocol_data: str = field()  # the protocol's name while the group is stable
    members: list[DescribedGroupMember] = field()
    authorized_operations: Int32 = field("3+", default=-2147483648)  # a bit field; the default: was not requested


class DescribeGroupsResponse(Response, api_key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    """One description per group."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    groups: list[DescribedGroup] = field()
