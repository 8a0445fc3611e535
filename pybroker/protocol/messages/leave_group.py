"""LeaveGroup (key 13): members leave a classic group; from v3 several at once, also by instance id."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32


class MemberIdentity(Struct):
    """A member that leaves: a member id, or the instance id of a static member."""

    member_id: str = field("3+")
    group_instance_id: str | None = field("3+", default=None)
    reason: str | None = field("5+", default=None, ignorable=True)


class LeaveGroupRequest(Request, api_key=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    """One member up to v2, any number from v3."""

    group_id: str = field()
    member_id: str = field("0-2")
    members: list[MemberIdentity] = field("3+")


class MemberResponse(Struct):
    """The result for one member."""

    member_id: str = field("3+")
    group_instance_id: str | None = field("3+")
    error_code: Int16 = field("3+")


class LeaveGroupResponse(Response, api_key=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    """One result per member from v3."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field()
    members: list[MemberResponse] = field("3+")
