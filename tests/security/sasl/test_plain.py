"""PLAIN: the users that get in, and what the others learn."""

from __future__ import annotations

import pytest

from pybroker.security.sasl.exchange import Identity, RefusedError, SaslError
from pybroker.security.sasl.plain import Plain

PLAIN = Plain({"username": "admin", "password": "of-admin", "user_alice": "secret", "user_Ünal": "pässword"})


@pytest.mark.parametrize(
    ("token", "user"), [("\0alice\0secret", "alice"), ("alice\0alice\0secret", "alice"), ("\0Ünal\0pässword", "Ünal")]
)
def test_a_user_with_the_password_gets_in(token: str, user: str) -> None:
    exchange = PLAIN.begin()
    assert exchange.respond(token.encode()) == b""
    assert exchange.identity == Identity(user)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("\0alice\0Secret", "Invalid username or password"),
        ("\0Alice\0secret", "Invalid username or password"),
        ("\0admin\0of-admin", "Invalid username or password"),  # whom the broker is, which is no user
        ("bob\0alice\0secret", "Client requested an authorization id that is different from username"),
    ],
)
def test_others_are_refused_in_kafkas_words(token: str, message: str) -> None:
    exchange = PLAIN.begin()
    with pytest.raises(RefusedError, match=message):
        exchange.respond(token.encode())
    assert exchange.identity is None


@pytest.mark.parametrize("token", [b"", b"\0alice", b"\0alice\0secret\0", b"\0\0secret", b"\0alice\0", b"\xff\0a\0b"])
def test_a_token_that_is_none_is_refused_without_a_reason(token: bytes) -> None:
    with pytest.raises(SaslError) as error:
        PLAIN.begin().respond(token)
    assert not isinstance(error.value, RefusedError)
