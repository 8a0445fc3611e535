"""SyncGroup (key 14): the leader sends the assignment, and every member gets its own part."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32


class SyncGroupRequestAssignment(Struct):
    """The assignment of one member, which only the members understand."""

    member_id: str = field()
    assignment: bytes = field()


class SyncGroupRequest(Request, api_key=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    """A request from one member; only the leader's has assignments."""

    group_id: str = field()
    generation_id: Int32 = field()
    member_id: str = field()
    group_instance_id: str | None = field("3+", default=None)
    protocol_type: str | None = field("5+", default=None, ignorable=True)
    protocol_name: str | None = field("5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field()


class SyncGroupResponse(Response, api_key=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    """The member's own assignment."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field()
    protocol_type: str | None = field("5+", default=None, ignorable=True)
    protocol_name: str | None = field("5+", default=None, ignorable=True)
    assignment: bytes = field()
