"""Heartbeat (key 12): a member of a classic group stays alive, and learns of rebalances."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, field
from pybroker.protocol.wire import Int16, Int32


class HeartbeatRequest(Request, api_key=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    """A heartbeat of one member in one generation."""

    group_id: str = field()
    generation_id: Int32 = field()
    member_id: str = field()
    group_instance_id: str | None = field("3+", default=None)


class HeartbeatResponse(Response, api_key=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    """Whether the member may continue."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field()
