"""OAUTHBEARER: which messages are those of RFC 7628, and what a client with a bad token learns."""

from __future__ import annotations

import random
from base64 import b64decode

import pytest

from pybroker.clock import ManualClock
from pybroker.protocol.error_codes import ErrorCode
from pybroker.security.sasl.exchange import ChallengeError, Identity, RefusedError, SaslError
from pybroker.security.sasl.login import Login, Offer, State
from pybroker.security.sasl.oauthbearer import MESSAGE_BYTES_MAX, OauthBearer, TokenError


class Known:
    """Accepts tokens that it has, whose names are their users."""

    def __init__(self, *tokens: str, expires_ms: int = 60_000) -> None:
        self.tokens, self.expires_ms, self.seen = tokens, expires_ms, list[str]()

    def validate(self, token: str) -> Identity:
        self.seen.append(token)
        if token == "narrow":
            raise TokenError("the token lacks a scope", user="eve", scope="[read, write]")
        if token not in self.tokens:
            raise TokenError("the signature is wrong")
        return Identity("a,b=c" if token == "odd" else token, self.expires_ms)


def logged_in(message: bytes, *tokens: str) -> Identity | None:
    exchange = OauthBearer(Known(*tokens)).begin()
    assert exchange.respond(message) == b""
    return exchange.identity


def begun(tokens: Known, clock: ManualClock, *, session_ms: int = 0, is_bare: bool = False) -> Login:
    offer = Offer({"OAUTHBEARER": OauthBearer(tokens)}, {"OAUTHBEARER": session_ms})
    login = Login(offer, on_again=lambda connection: None, clock=clock)
    assert login.choose("OAUTHBEARER", is_bare=is_bare) == ErrorCode.NONE
    return login


def test_the_example_of_the_rfc_is_understood() -> None:
    """RFC 7628, section 4.1, whose connection asks for an authorization id by mail address and names a host and a port."""
    example = (
        "bixhPXVzZXJAZXhhbXBsZS5jb20sAWhvc3Q9c2VydmVyLmV4YW1wbGUuY29tAXBvcnQ9MTQzAWF1dGg9QmVhcmVyIHZGOWRmdDRxbVRjMk52YjNSbGNrQmhi"
        "SFJoZG1semRHRXVZMjl0Q2c9PQEB"
    )
    tokens = Known()
    with pytest.raises(ChallengeError, match="invalid_token"):
        OauthBearer(tokens).begin().respond(b64decode(example))
    assert tokens.seen == ["vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="]


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer alice\x01\x01",
        b"n,,\x01auth=bEARER   alice\x01\x01",
        b"n,a=alice,\x01auth=Bearer alice\x01\x01",
        b"n,,\x01traceId=1=2 \t\x01auth=Bearer alice\x01other=x\x01\x01",
    ],
)
def test_a_token_gets_in(message: bytes) -> None:
    assert logged_in(message, "alice") == Identity("alice", 60_000)


def test_an_authorization_id_is_that_of_the_token() -> None:
    assert logged_in(b"n,a=a=2Cb=3Dc,\x01auth=Bearer odd\x01\x01", "odd") == Identity("a,b=c", 60_000)
    with pytest.raises(RefusedError) as refused:
        logged_in(b"n,a=bob,\x01auth=Bearer alice\x01\x01", "alice")
    words = "Client requested an authorization id (bob) that is different from the token's principal name (alice)"
    assert str(refused.value) == f"Authentication failed: {words}"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"\0alice\0secret",
        b"y,,\x01auth=Bearer alice\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer alice\x01\x01",
        b"n,,\x01auth=Bearer alice\x01",
        b"n,,\x01auth=Bearer alice\x01\x01\x01",
        b"n,,auth=Bearer alice\x01\x01",
        b"n,,\x01host=a\x01\x01",
        b"n,,\x01auth=Basic alice\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer al,ice\x01\x01",
        b"n,,\x01auth=Bearer al=ice\x01\x01",
        b"n,,\x01auth=Bearer \xc3\xa9\x01\x01",
        b"n,a=a=2c,\x01auth=Bearer alice\x01\x01",
        b"n,,\x01a1=b\x01auth=Bearer alice\x01\x01",
        b"n,,\x01auth=Bearer " + b"a" * MESSAGE_BYTES_MAX + b"\x01\x01",
    ],
)
def test_other_messages_are_refused_without_a_reason_for_the_client(message: bytes) -> None:
    login = begun(Known("alice"), ManualClock(10_000))
    code, text, token, _ = login.take(message)
    assert (code, token) == (ErrorCode.SASL_AUTHENTICATION_FAILED, b"")
    assert text == "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
    assert login.state == State.FAILED
    assert "alice" not in login.failure


@pytest.mark.parametrize(
    ("bearer", "words"),
    [("other", b'{"status":"invalid_token"}'), ("narrow", b'{"status":"insufficient_scope", "scope":"[read, write]"}')],
)
@pytest.mark.parametrize("confirmation", [b"\x01", b"n,,\x01auth=Bearer alice\x01\x01", b""])
@pytest.mark.parametrize("is_bare", [False, True])
def test_a_bad_token_gets_kafkas_words_and_then_the_failure(
    bearer: str, words: bytes, confirmation: bytes, *, is_bare: bool
) -> None:
    login = begun(Known("alice"), ManualClock(10_000), is_bare=is_bare)
    assert login.take(f"n,,\x01auth=Bearer {bearer}\x01\x01".encode()) == (ErrorCode.NONE, None, words, 0)
    reason = login.failure
    assert reason in ("the signature is wrong", "the token lacks a scope")
    assert login.state == State.TOKENS
    assert login.take(confirmation) == (ErrorCode.SASL_AUTHENTICATION_FAILED, words.decode(), b"", 0)
    assert (login.state, login.failure, login.principal) == (State.FAILED, reason, "")
    assert login.given_user == ("eve" if bearer == "narrow" else "")


@pytest.mark.parametrize(
    ("session_ms", "lives_ms", "expected_ms"), [(0, 5_000, 5_000), (3_000, 5_000, 3_000), (9_000, 5_000, 5_000), (9_000, -1, 0)]
)
def test_a_session_ends_with_its_token_or_earlier(session_ms: int, lives_ms: int, expected_ms: int) -> None:
    """As in Kafka, a token that expired within the skew of the clocks is accepted, for no time at all."""
    clock = ManualClock(10_000)
    login = begun(Known("alice", expires_ms=clock.time_ms() + lives_ms), clock, session_ms=session_ms)
    assert login.take(b"n,,\x01auth=Bearer alice\x01\x01") == (ErrorCode.NONE, None, b"", expected_ms)
    clock.advance(max(expected_ms - 1, 0))
    assert login.is_expired() == (expected_ms == 0)
    clock.advance(1)
    assert login.is_expired()


def test_another_login_is_of_the_same_user() -> None:
    login = begun(Known("alice", "bob"), ManualClock(10_000))
    login.take(b"n,,\x01auth=Bearer alice\x01\x01")
    assert login.begin_again("connection")
    login.choose("OAUTHBEARER", is_bare=False)
    message = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert login.take(b"n,,\x01auth=Bearer bob\x01\x01").message == message


def test_mutated_messages_end_with_an_error_or_a_login() -> None:
    generator, exchanges = random.Random(7628), OauthBearer(Known("alice"))
    whole = b"n,a=alice,\x01host=a\x01auth=Bearer alice\x01\x01"
    for _ in range(5_000):
        message = bytearray(whole)
        for _ in range(generator.randrange(1, 4)):
            message[generator.randrange(len(message))] = generator.choice(b"\x00\x01,=\xff aA" + whole)
        exchange = exchanges.begin()
        try:
            exchange.respond(bytes(message))
        except SaslError:
            assert exchange.identity is None
        else:
            assert exchange.identity is not None
