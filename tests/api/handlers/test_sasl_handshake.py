"""SaslHandshake in each version, at a connection that logs in and at others; integration/security has whole logins."""

from __future__ import annotations

import pytest

from pybroker.api.context import RequestContext
from pybroker.api.handlers import sasl_handshake
from pybroker.clock import ManualClock
from pybroker.network.context import ConnectionContext
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from pybroker.security.sasl.login import Login, Offer
from pybroker.security.sasl.plain import Plain


def asked(mechanism: str, version: int = 1, login: Login | None = None) -> SaslHandshakeResponse:
    connection = ConnectionContext(connection_id=1)
    connection.login = login
    services: object = None
    context = RequestContext(connection, version, 1, None)
    return sasl_handshake.handle(services, context, SaslHandshakeRequest(mechanism=mechanism))  # type: ignore[arg-type]  # not read


def new_login() -> Login:
    offer = Offer({"PLAIN": Plain({"user_a": "b"})}, {})
    return Login(offer, on_again=lambda connection: None, clock=ManualClock())


@pytest.mark.parametrize("version", [0, 1])
def test_a_mechanism_is_chosen(version: int) -> None:
    login = new_login()
    response = asked("PLAIN", version, login)
    assert (response.error_code, response.mechanisms) == (ErrorCode.NONE, ["PLAIN"])
    assert login.is_bare == (version == 0)


def test_the_response_to_an_unknown_mechanism_has_those_that_there_are() -> None:
    response = asked("GSSAPI", login=new_login())
    assert (response.error_code, response.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"])


def test_a_login_that_has_begun_begins_no_other() -> None:
    login = new_login()
    asked("PLAIN", login=login)
    assert asked("PLAIN", login=login).error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_a_plain_listener_has_no_logins() -> None:
    assert asked("PLAIN") == SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
