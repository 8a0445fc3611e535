"""SCRAM: the example of RFC 7677, and the logins that fail."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode

import pytest

from pybroker.security.sasl.exchange import Identity, RefusedError, SaslError
from pybroker.security.sasl.scram import Scram, ScramExchange
from pybroker.security.sasl.scram_credentials import SHA_256, SHA_512, Credential, ScramMechanism, decode, of_salted_password
from pybroker.security.sasl.token_logins import CREDENTIALS_MAX, TokenLogin, TokenLogins
from pybroker.security.tokens import Token, hmac_of

SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="


KEY = "the brokers' secret"
TOKEN = Token("token-id", "User:owner", "User:requester", (), issued_ms=1, max_ms=9, expires_ms=5)
TOKENS = TokenLogins({TOKEN.token_id: TOKEN}.get, KEY)
HMAC = b64encode(hmac_of(KEY, TOKEN.token_id)).decode()


class Users:
    """One user, whose name is `user`, and whose password is `pencil`."""

    def __init__(self, *, iterations: int = 4_096) -> None:
        self.iterations = iterations

    def credential(self, mechanism: ScramMechanism, user: str) -> Credential | None:
        if user != "user":
            return None
        salted_password = mechanism.salted_password("pencil", SALT, self.iterations)
        return of_salted_password(mechanism, salted_password, SALT, self.iterations)

    def token(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin | None:
        return TOKENS.login(mechanism, token_id)

    def secret(self) -> bytes:
        return b"of the cluster"


def begun(mechanism: ScramMechanism = SHA_256) -> ScramExchange:
    return Scram(mechanism, Users(), lambda: SERVER_NONCE).begin()


def proved(mechanism: ScramMechanism, first: bytes, response: bytes, password: str) -> bytes:
    """Return the client's last message."""
    nonce, salt, iterations = (field[2:] for field in response.decode().split(",", 2))
    unproved = f"c=biws,r={nonce}"
    messages = b",".join([first.partition(b",")[2].partition(b",")[2], response, unproved.encode()])
    client_key = mechanism.hmac(mechanism.salted_password(password, b64decode(salt), int(iterations)), b"Client Key")
    signature = mechanism.hmac(mechanism.hash(client_key), messages)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    return f"{unproved},p={b64encode(proof).decode()}".encode()


def test_the_example_of_the_rfc() -> None:
    exchange = begun()
    assert exchange.respond(FIRST) == f"r=rOprNGfwEbeRWgbNEkqO{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    assert exchange.identity is None
    assert exchange.respond(FINAL.encode()) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.identity == Identity("user")


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize(("user", "password"), [("user", "Pencil"), ("nobody", "pencil")])
def test_a_wrong_password_and_an_unknown_user_fail_at_the_same_place(mechanism: ScramMechanism, user: str, password: str) -> None:
    exchange = begun(mechanism)
    first = f"n,,n={user},r=abc".encode()
    response = exchange.respond(first)
    assert re.fullmatch(rb"r=abc\S+,s=\S+,i=4096", response)
    with pytest.raises(SaslError) as error:
        exchange.respond(proved(mechanism, first, response, password))
    assert not isinstance(error.value, RefusedError), "the client learns no reason"
    assert exchange.identity is None


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("extension", ["tokenauth=true", "other=1,tokenauth=TRUE"])
def test_a_token_logs_in_as_its_owner_until_it_expires(mechanism: ScramMechanism, extension: str) -> None:
    exchange, first = begun(mechanism), f"n,,n={TOKEN.token_id},r=abc,{extension}".encode()
    exchange.respond(proved(mechanism, first, exchange.respond(first), HMAC))
    assert exchange.identity == Identity("owner", TOKEN.expires_ms, is_token=True)
    assert exchange.user == TOKEN.token_id


@pytest.mark.parametrize(
    ("user", "extension", "password"),
    [
        (TOKEN.token_id, "tokenauth=true", "pencil"),
        ("other", "tokenauth=true", HMAC),
        ("user", "tokenauth=true", "pencil"),
        (TOKEN.token_id, "tokenauth=false", HMAC),
        (TOKEN.token_id, "TOKENAUTH=true", HMAC),
    ],
)
def test_neither_a_user_nor_another_password_is_a_token(user: str, extension: str, password: str) -> None:
    exchange, first = begun(), f"n,,n={user},r=abc,{extension}".encode()
    response = exchange.respond(first)
    with pytest.raises(SaslError):
        exchange.respond(proved(SHA_256, first, response, password))
    assert exchange.identity is None


def test_the_credentials_of_tokens_are_kept_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScramMechanism, "salted_password", lambda *_: b"cheap")
    logins = TokenLogins(lambda token_id: TOKEN._replace(token_id=token_id), KEY)
    first = [logins.login(SHA_256, str(number)) for number in range(CREDENTIALS_MAX)]
    assert [logins.login(SHA_256, str(number)) for number in range(CREDENTIALS_MAX)] == first
    logins.login(SHA_256, "one more")
    assert logins.login(SHA_256, "1") == first[1]
    assert logins.login(SHA_256, "0") != first[0], "it has a new salt"


def test_an_unknown_user_has_the_same_salt_at_each_try() -> None:
    responses = [begun().respond(f"n,,n={user},r=abc".encode()) for user in ("nobody", "nobody", "other")]
    assert responses[0] == responses[1] != responses[2]


@pytest.mark.parametrize(
    "message",
    [
        b"", b"\xff", b"p=tls-unique,,n=user,r=a", b"n,,n=user", b"n,,n=,r=a", b"n,,n=us=er,r=a", b"n,,r=a,n=user",
        b"n,,n=user,r=a b", b"n,,n=us\x00er,r=a",
    ],
)  # fmt: skip
def test_another_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(SaslError):
        begun().respond(message)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("c=biws", "c=eSws"), ("r=rO", "r=ro"), ("p=dHz", "p=dHy"), ("p=dHz", "p=d"), (",p=", ",q="), ("c=", "d=")],
)
def test_another_last_message_is_refused(right: str, wrong: str) -> None:
    exchange = begun()
    exchange.respond(FIRST)
    with pytest.raises(SaslError):
        exchange.respond(FINAL.replace(right, wrong).encode())
    assert exchange.identity is None


def test_another_authorization_is_refused_in_kafkas_words() -> None:
    with pytest.raises(RefusedError, match="authorization id that is different from username"):
        begun().respond(b"n,a=admin,n=user,r=a")
    assert begun().respond(b"n,a=user,n=user,r=a")


def test_a_credential_is_a_text_as_in_kafka() -> None:
    credential = Users().credential(SHA_256, "user")
    assert credential is not None
    assert re.fullmatch(r"salt=\S+=,stored_key=\S+=,server_key=\S+=,iterations=4096", credential.encode())
    assert decode(credential.encode()) == credential
    for text in ("", "salt=YQ==", "salt=%,stored_key=YQ==,server_key=YQ==,iterations=1"):
        with pytest.raises(ValueError, match="is no SCRAM credential"):
            decode(text)
