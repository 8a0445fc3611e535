"""SaslHandshake (key 17), v0-1: choose the mechanism by which the client logs in.

Behaviour
    At a SASL listener, the first request or the one after ApiVersions. A mechanism that the listener does not offer is
    UNSUPPORTED_SASL_MECHANISM with those that it offers, and ends the connection. A client that has logged in begins to log in
    again, to stay for longer than its session; one that was not a second ago. Anywhere else the request is ILLEGAL_SASL_STATE.
    `security/sasl/login.py` has the states, `api/gate.py` what else a client may send meanwhile.
Versions
    v0 is followed by bare tokens, v1 by SaslAuthenticate.
Not done
    GSSAPI.
Source: SaslServerAuthenticator.handleHandshakeRequest, KafkaApis.handleSaslHandshakeRequest; KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services

_KEY: Final = ApiKey.SASL_HANDSHAKE


def handle(
    broker: Services,  # noqa: ARG001
    context: RequestContext,
    request: SaslHandshakeRequest,
) -> SaslHandshakeResponse:
    """Begin a login."""
    login = context.connection.login
    if login is None or not (login.fits(_KEY) or login.begin_again(context.connection)):
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    error_code = login.choose(request.mechanism, is_bare=context.api_version == 0)
    return SaslHandshakeResponse(error_code=error_code, mechanisms=login.mechanisms)
