"""ExpireDelegationToken (key 40): a token ends, at once or later (KIP-48)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, field
from pybroker.protocol.wire import Int16, Int32, Int64


class ExpireDelegationTokenRequest(Request, api_key=ApiKey.EXPIRE_DELEGATION_TOKEN, versions="0-2", flexible="2+"):
    """A token to end."""

    hmac: bytes = field()
    expiry_time_period_ms: Int64 = field()  # -1: at once


class ExpireDelegationTokenResponse(Response, api_key=ApiKey.EXPIRE_DELEGATION_TOKEN, versions="0-2", flexible="2+"):
    """The time until which the token is valid now."""

    error_code: Int16 = field()
    expiry_timestamp_ms: Int64 = field()
    throttle_time_ms: Int32 = field()
