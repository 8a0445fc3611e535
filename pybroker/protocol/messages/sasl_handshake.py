"""SaslHandshake (key 17): choose the mechanism of a login (KIP-43, KIP-152)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, field
from pybroker.protocol.wire import Int16


class SaslHandshakeRequest(Request, api_key=ApiKey.SASL_HANDSHAKE, versions="0-1", flexible="none"):
    """The mechanism that the client logs in by. Behind version 0, the login is no Kafka requests but bare tokens."""

    mechanism: str = field()


class SaslHandshakeResponse(Response, api_key=ApiKey.SASL_HANDSHAKE, versions="0-1", flexible="none"):
    """The mechanisms that the listener has."""

    error_code: Int16 = field()
    mechanisms: list[str] = field()
