"""SaslAuthenticate (key 36): a token of a login (KIP-152, KIP-368)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, field
from pybroker.protocol.wire import Int16, Int64


class SaslAuthenticateRequest(Request, api_key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    """The client's token, in the form of the mechanism."""

    auth_bytes: bytes = field()


class SaslAuthenticateResponse(Response, api_key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    """The broker's token, and for how long the login is valid once it is complete."""

    error_code: Int16 = field()
    error_message: str | None = field()
    auth_bytes: bytes = field()
    session_lifetime_ms: Int64 = field("1+", ignorable=True)  # 0: without end
