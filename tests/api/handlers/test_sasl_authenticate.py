"""SaslAuthenticate in each version, at a connection that logs in and at others; integration/security has whole logins."""

from __future__ import annotations

import pytest

from pybroker.api.context import RequestContext
from pybroker.api.handlers import sasl_authenticate
from pybroker.clock import ManualClock
from pybroker.network.context import ConnectionContext
from pybroker.protocol.codec import decode_response, encode_response
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pybroker.security.sasl.login import Login, Offer
from pybroker.security.sasl.plain import Plain


def asked(token: bytes, version: int, login: Login | None) -> SaslAuthenticateResponse:
    """Return the response as the client reads it."""
    connection = ConnectionContext(connection_id=1)
    connection.login = login
    services: object = None
    request, context = SaslAuthenticateRequest(auth_bytes=token), RequestContext(connection, version, 1, None)
    response = sasl_authenticate.handle(services, context, request)  # type: ignore[arg-type]  # not read
    (encoded,) = encode_response(response, version, 1)
    assert isinstance(encoded, bytes)
    _, decoded = decode_response(SaslAuthenticateResponse, version, memoryview(encoded)[4:])
    return decoded


def begun() -> Login:
    offer = Offer({"PLAIN": Plain({"user_a": "b"})}, {"PLAIN": 60_000})
    login = Login(offer, on_again=lambda connection: None, clock=ManualClock())
    login.choose("PLAIN", is_bare=False)
    return login


@pytest.mark.parametrize(("version", "session_ms"), [(0, 0), (1, 60_000), (2, 60_000)])
def test_the_response_has_the_end_of_the_session(version: int, session_ms: int) -> None:
    response = asked(b"\0a\0b", version, begun())
    assert (response.error_code, response.session_lifetime_ms) == (ErrorCode.NONE, session_ms)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_failure_has_its_message(version: int) -> None:
    response = asked(b"\0a\0c", version, begun())
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == "Authentication failed: Invalid username or password"


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_token_that_no_login_waits_for_is_refused(is_plain: bool) -> None:
    login = None
    if not is_plain:
        login = begun()
        login.take(b"\0a\0b")
    response = asked(b"\0a\0b", 2, login)
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert response.error_message == "SaslAuthenticate request received after successful authentication"
