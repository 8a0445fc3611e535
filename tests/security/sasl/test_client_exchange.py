"""The client's part of a login: the example of RFC 7677, servers that prove nothing, and both of our parts with each other."""

from __future__ import annotations

from functools import partial

import pytest

from pybroker.config.setting import ConfigError
from pybroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pybroker.protocol.messages.sasl_handshake import SaslHandshakeResponse
from pybroker.security.sasl.client_exchange import Tokens, scram
from pybroker.security.sasl.client_login import login_of_client
from pybroker.security.sasl.exchange import Identity, SaslError
from pybroker.security.sasl.plain import MODULE, Plain
from pybroker.security.sasl.scram import MODULE as SCRAM_MODULE
from pybroker.security.sasl.scram import Scram
from pybroker.security.sasl.scram_credentials import SHA_256, SHA_512, Credential, ScramMechanism, of_salted_password
from tests.security.sasl.test_scram import FINAL, FIRST, SALT, SERVER_NONCE

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVERS_FIRST = f"r={NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SIGNATURE = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def begun(mechanism: ScramMechanism = SHA_256, user: str = "user", password: str = "pencil") -> Tokens:
    return scram(mechanism, user, partial(mechanism.salted_password, password), NONCE)


def test_the_example_of_the_rfc() -> None:
    exchange = begun()
    assert next(exchange) == FIRST
    assert exchange.send(SERVERS_FIRST.encode()) == FINAL.encode()
    with pytest.raises(StopIteration):
        exchange.send(SIGNATURE)


@pytest.mark.parametrize(
    ("first", "error"),
    [
        (SERVERS_FIRST.replace(NONCE, "other"), "another nonce"),
        (SERVERS_FIRST.replace(SERVER_NONCE, ""), "another nonce"),
        (SERVERS_FIRST.replace("4096", "4095"), "4095 iterations"),
        (SERVERS_FIRST.replace("4096", "999999999"), "999999999 iterations"),
        (SERVERS_FIRST.replace("W22", "="), "not base64"),
        ("m=x," + SERVERS_FIRST, "first message is not that of SCRAM"),
        ("\xff", "first message is not that of SCRAM"),
    ],
)
def test_a_first_message_that_cannot_be_right_gets_no_proof(first: str, error: str) -> None:
    exchange = begun()
    next(exchange)
    with pytest.raises(SaslError, match=error):
        exchange.send(first.encode("latin-1"))


@pytest.mark.parametrize("last", [b"", b"e=other-error", b"v=", SIGNATURE.replace(b"6", b"7"), SIGNATURE[:-4]])
def test_a_server_that_does_not_know_the_password_is_not_believed(last: bytes) -> None:
    exchange = begun()
    next(exchange)
    exchange.send(SERVERS_FIRST.encode())
    with pytest.raises(SaslError):
        exchange.send(last)


class OneUser:
    """A user with a name that messages have in another form."""

    name = "a=b,c"

    def credential(self, mechanism: ScramMechanism, user: str) -> Credential | None:
        salted = mechanism.salted_password("pässword", SALT, 4_096)
        return of_salted_password(mechanism, salted, SALT, 4_096) if user == self.name else None

    def token(self, mechanism: ScramMechanism, token_id: str) -> None:
        return None

    def secret(self) -> bytes:
        return b""


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_both_parts_agree(mechanism: ScramMechanism) -> None:
    server, client = Scram(mechanism, OneUser()).begin(), begun(mechanism, OneUser.name, "pässword")
    with pytest.raises(StopIteration):
        client.send(server.respond(client.send(server.respond(next(client)))))
    assert server.identity == Identity(OneUser.name)


def properties(mechanism: str, module: str, options: str) -> dict[str, str]:
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{module} required {options};"}


def test_the_requests_of_a_login() -> None:
    login = login_of_client(properties("PLAIN", MODULE, 'username="alice" password="secret"'))
    assert (login.mechanism, login.user) == ("PLAIN", "alice")
    requests = login.requests()
    assert next(requests).mechanism == "PLAIN"
    request = requests.send(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]))
    server = Plain({"user_alice": "secret"}).begin()
    assert isinstance(request, SaslAuthenticateRequest)
    token = server.respond(request.auth_bytes)
    with pytest.raises(StopIteration) as end:
        requests.send(SaslAuthenticateResponse(error_code=0, auth_bytes=token, session_lifetime_ms=7))
    assert (server.identity, end.value.value) == (Identity("alice"), 7)


@pytest.mark.parametrize(
    ("responses", "error"),
    [
        ([SaslHandshakeResponse(error_code=33, mechanisms=["A", "B"])], "the mechanisms there are A, B, without PLAIN"),
        ([SaslHandshakeResponse(), SaslAuthenticateResponse(error_code=58, error_message="No.")], "No."),
    ],
)
def test_a_refusal_has_the_servers_words(responses: list[object], error: str) -> None:
    requests = login_of_client(properties("PLAIN", MODULE, 'username="alice" password="secret"')).requests()
    next(requests)
    for response in responses[:-1]:
        requests.send(response)
    with pytest.raises(SaslError, match=error):
        requests.send(responses[-1])


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, "sasl.mechanism=GSSAPI: must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.jaas.config=: is not set: PLAIN needs .*PlainLoginModule required"),
        (properties("PLAIN", SCRAM_MODULE, ""), "must have the login module .*PlainLoginModule for PLAIN"),
        (properties("SCRAM-SHA-512", SCRAM_MODULE, 'username="hidden"'), r"\[hidden\]: needs username=\"...\" and password"),
    ],
)
def test_settings_that_are_no_login_are_refused_without_their_secrets(given: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigError, match=error) as refused:
        login_of_client(given)
    assert 'username="hidden"' not in str(refused.value)
