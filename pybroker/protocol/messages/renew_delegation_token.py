"""RenewDelegationToken (key 39): a token is valid for longer (KIP-48)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, field
from pybroker.protocol.wire import Int16, Int32, Int64


class RenewDelegationTokenRequest(Request, api_key=ApiKey.RENEW_DELEGATION_TOKEN, versions="0-2", flexible="2+"):
    """A token to renew."""

    hmac: bytes = field()
    renew_period_ms: Int64 = field()  # -1: the broker's


class RenewDelegationTokenResponse(Response, api_key=ApiKey.RENEW_DELEGATION_TOKEN, versions="0-2", flexible="2+"):
    """The time until which the token is valid now."""

    error_code: Int16 = field()
    expiry_timestamp_ms: Int64 = field()
    throttle_time_ms: Int32 = field()
