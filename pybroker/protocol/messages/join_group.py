"""JoinGroup (key 11): enter a classic group; the response comes when all members have joined."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int16, Int32


class JoinGroupRequestProtocol(Struct):
    """A protocol that the member supports: for consumers an assignor, with the subscription as metadata."""

    name: str = field()
    metadata: bytes = field()


class JoinGroupRequest(Request, api_key=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    """A member that joins, or joins again for a rebalance."""

    group_id: str = field()
    session_timeout_ms: Int32 = field()
    rebalance_timeout_ms: Int32 = field("1+", default=-1, ignorable=True)  # v0: the session timeout
    member_id: str = field()  # empty: a new member
    group_instance_id: str | None = field("5+", default=None)  # static membership (KIP-345)
    protocol_type: str = field()
    protocols: list[JoinGroupRequestProtocol] = field()  # the preferred one first
    reason: str | None = field("8+", default=None, ignorable=True)  # KIP-800


class JoinGroupResponseMember(Struct):
    """A member, as the leader sees it."""

    member_id: str = field()
    group_instance_id: str | None = field("5+", default=None, ignorable=True)
    metadata: bytes = field()


class JoinGroupResponse(Response, api_key=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    """The new generation; only the leader, which assigns, gets the members."""

    throttle_time_ms: Int32 = field("2+", ignorable=True)
    error_code: Int16 = field()
    generation_id: Int32 = field(default=-1)
    protocol_type: str | None = field("7+", default=None, ignorable=True)
    protocol_name: str | None = field(nullable="7+")
    leader: str = field()
    skip_assignment: Bool = field("9+")  # the leader keeps the assignment as it is (KIP-814)
    member_id: str = field()
    members: list[JoinGroupResponseMember] = field()
