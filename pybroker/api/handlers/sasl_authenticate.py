"""SaslAuthenticate (key 36), v0-2: a token of the client's login, and the broker's in the response.

Behaviour
    Follows SaslHandshake v1. SASL_AUTHENTICATION_FAILED ends the connection; its message is Kafka's, and never shows whether the
    user exists. Anywhere else the request is ILLEGAL_SASL_STATE.
Versions
    v1 the time after which the client must log in again (KIP-368). v2 flexible.
Not done
    Nothing.
Source: SaslServerAuthenticator.handleSaslToken, KafkaApis.handleSaslAuthenticateRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services

_KEY: Final = ApiKey.SASL_AUTHENTICATE


def handle(
    broker: Services,  # noqa: ARG001
    context: RequestContext,
    request: SaslAuthenticateRequest,
) -> SaslAuthenticateResponse:
    """Take the token."""
    login = context.connection.login
    if login is None or not login.fits(_KEY):
        message = "SaslAuthenticate request received after successful authentication"
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message)
    outcome = login.take(bytes(request.auth_bytes))
    return SaslAuthenticateResponse(
        error_code=outcome.error_code,
        error_message=outcome.message or "",  # as in Kafka, which has no null here
        auth_bytes=outcome.token,
        session_lifetime_ms=outcome.session_ms,
    )
