"""The states of a login: what fits when, what ends it, and for how long it is valid."""

from __future__ import annotations

import pytest

from pybroker.clock import ManualClock
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.security.sasl.exchange import Identity, SaslError
from pybroker.security.sasl.login import AGAIN_MS_MIN, Login, Offer, State
from pybroker.security.sasl.plain import Plain

RIGHT, OTHER, WRONG = b"\0alice\0secret", b"\0bob\0b", b"\0alice\0x"
REQUESTS = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.METADATA)


class Expiring:
    """A mechanism that believes every user, until a time."""

    def __init__(self, expires_ms: int) -> None:
        self.expires_ms = expires_ms
        self.identity: Identity | None = None
        self.user = ""

    def begin(self) -> Expiring:
        return self

    def respond(self, token: bytes) -> bytes:
        if not token:
            raise SaslError("empty")
        self.identity = Identity(token.decode(), self.expires_ms)
        return b""


def begun(clock: ManualClock, session_ms: int = 0, again: list[object] | None = None) -> Login:
    plain = Plain({"user_alice": "secret", "user_bob": "b"})
    soon = Expiring(clock.time_ms() + 5_000)
    offer = Offer({"PLAIN": plain, "SOON": soon}, {"PLAIN": session_ms, "SOON": session_ms})
    on_again = (lambda connection: None) if again is None else again.append
    return Login(offer, on_again=on_again, clock=clock)


def logged_in(clock: ManualClock, session_ms: int = 0, again: list[object] | None = None) -> Login:
    login = begun(clock, session_ms, again)
    assert login.choose("PLAIN", is_bare=False) == ErrorCode.NONE
    assert login.take(RIGHT) == (ErrorCode.NONE, None, b"", session_ms)
    return login


def test_each_state_has_its_requests() -> None:
    login = begun(ManualClock(10_000))
    assert [login.fits(key) for key in REQUESTS] == [True, True, False, False]
    login.choose("PLAIN", is_bare=False)
    assert [login.fits(key) for key in REQUESTS] == [False, False, True, False]
    login.take(RIGHT)
    assert (login.state, login.principal) == (State.COMPLETE, "User:alice")
    assert [login.fits(key) for key in REQUESTS] == [False] * 4


def test_an_unknown_mechanism_ends_the_login() -> None:
    login = begun(ManualClock(10_000))
    assert login.choose("GSSAPI", is_bare=False) == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert login.state == State.FAILED
    assert not any(login.fits(key) for key in REQUESTS)


def test_a_failure_has_kafkas_words_and_no_secret() -> None:
    login = begun(ManualClock(10_000))
    login.choose("PLAIN", is_bare=False)
    assert login.take(WRONG)[:2] == (ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed: Invalid username or password")
    login = begun(ManualClock(10_000))
    login.choose("PLAIN", is_bare=False)
    message = "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"
    assert login.take(b"nonsense")[:2] == (ErrorCode.SASL_AUTHENTICATION_FAILED, message)
    assert login.state == State.FAILED


def test_a_session_ends_with_the_setting_or_with_the_proof() -> None:
    clock = ManualClock(10_000)
    login = logged_in(clock, 2_000)
    clock.advance(2 * AGAIN_MS_MIN - 1)
    assert not login.is_expired()
    clock.advance(1)
    assert login.is_expired()
    for session_ms, expected_ms in ((0, 5_000), (3_000, 3_000), (9_000, 5_000)):
        login = begun(clock, session_ms)
        login.choose("SOON", is_bare=False)
        assert login.take(b"eve").session_ms == expected_ms


def test_a_client_logs_in_again_as_the_same_user_by_the_same_mechanism() -> None:
    clock, again = ManualClock(10_000), list[object]()
    login = logged_in(clock, 2_000, again)
    assert login.begin_again("connection")
    assert again == ["connection"]
    login.choose("PLAIN", is_bare=False)
    clock.advance(AGAIN_MS_MIN)
    assert login.take(RIGHT).session_ms == 2_000
    assert login.expires_ms == clock.time_ms() + 2 * AGAIN_MS_MIN
    assert login.begin_again("connection")
    login.choose("PLAIN", is_bare=False)
    message = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert login.take(OTHER).message == message


def test_another_mechanism_is_refused_when_a_client_logs_in_again() -> None:
    login = logged_in(ManualClock(10_000))
    login.begin_again("connection")
    assert login.choose("SOON", is_bare=False) == ErrorCode.NONE
    outcome = login.take(b"alice")
    assert outcome.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert (
        outcome.message == "SASL mechanism 'SOON' requested by client is not supported for re-authentication of mechanism 'PLAIN'"
    )


def test_a_client_may_log_in_again_once_a_second() -> None:
    clock = ManualClock(10_000)
    login = logged_in(clock)
    assert login.begin_again("connection")
    login.choose("PLAIN", is_bare=False)
    login.take(RIGHT)
    clock.advance(AGAIN_MS_MIN - 1)
    assert not login.begin_again("connection")
    clock.advance(1)
    assert login.begin_again("connection")


@pytest.mark.parametrize("is_bare", [False, True])
def test_a_wrong_token_of_a_second_login_fails_in_other_words(is_bare: bool) -> None:
    login = logged_in(ManualClock(10_000))
    login.begin_again("connection")
    login.choose("PLAIN", is_bare=is_bare)
    assert "during re-authentication due to" in (login.take(b"nonsense").message or "")
