"""FindCoordinator (key 10): which broker coordinates a group, a transactional id or a share partition."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int8, Int16, Int32


class FindCoordinatorRequest(Request, api_key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    """One key up to v3, any number of one type from v4."""

    key: str = field("0-3")
    key_type: Int8 = field("1+")  # 0: group, 1: transaction, 2: share partition
    coordinator_keys: list[str] = field("4+")


class Coordinator(Struct):
    """The coordinator of one key."""

    key: str = field("4+")
    node_id: Int32 = field("4+")
    host: str = field("4+")
    port: Int32 = field("4+")
    error_code: Int16 = field("4+")
    error_message: str | None = field("4+", ignorable=True)


class FindCoordinatorResponse(Response, api_key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    """One coordinator up to v3, one per key from v4."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("0-3")
    error_message: str | None = field("1-3", ignorable=True)
    node_id: Int32 = field("0-3")
    host: str = field("0-3")
    port: Int32 = field("0-3")
    coordinators: list[Coordinator] = field("4+")
