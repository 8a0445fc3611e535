"""JSON Web Tokens as the tokens of OAUTHBEARER: signed ones, and those that are only written down (RFC 7519).

    signed       by a key of the key set, with times, an audience and an issuer as configured
    unsecured    algorithm `none`: whoever can write a text is any user

It needs the packages PyJWT and cryptography.

Source: ValidatorAccessTokenValidator, OAuthBearerUnsecuredValidatorCallbackHandler, OAuthBearerUnsecuredJws; KIP-255, KIP-768.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from jwt import InvalidSignatureError, PyJWS, PyJWTError

from pybroker.security.sasl.exchange import Identity
from pybroker.security.sasl.key_set import ALGORITHMS
from pybroker.security.sasl.oauthbearer import TokenError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.clock import Clock

_JWS: Final = PyJWS()
_SECONDS_MAX: Final = 1 << 43  # times of tokens are below this, so that they fit into Kafka's in ms
_Claims = dict[str, Any]


class Keys(Protocol):
    """The keys that verify signatures, as they are now."""

    def find(self, algorithm: str, key_id: str | None) -> Any:
        """Return the key for an algorithm, of an id if there is one; None if there is no such key."""


class Expected(NamedTuple):
    """The claims that a signed token must have. No `audiences`: no audience at all; no `issuer`: any."""

    audiences: Sequence[str]
    issuer: str | None
    skew_ms: int
    scope_claim: str
    sub_claim: str


class SignedTokens:
    """Tokens that an issuer has signed."""

    __slots__ = ("_clock", "_expected", "_keys")

    def __init__(self, keys: Keys, expected: Expected, clock: Clock) -> None:
        self._keys, self._expected, self._clock = keys, expected, clock

    def validate(self, token: str) -> Identity:
        """Return whose token this is, and until when. Raises TokenError."""
        expected = self._expected
        claims = self._verified(token)
        name = _subject(claims, expected.sub_claim)
        try:
            if claims.get("iat") is None:
                raise TokenError("the token has no claim iat")
            expires_ms = _expiry_ms(claims, "nbf", now_ms=self._clock.time_ms(), skew_ms=expected.skew_ms)
            _check_audience(claims.get("aud"), expected.audiences)
            if expected.issuer is not None and claims.get("iss") != expected.issuer:
                raise TokenError("the token is of another issuer")
            _check_scopes(claims.get(expected.scope_claim), expected.scope_claim)
        except TokenError as error:
            error.user = name
            raise
        return Identity(name, expires_ms)

    def _verified(self, token: str) -> _Claims:
        """Return the claims of a token with a right signature. Raises TokenError."""
        try:
            header = _JWS.get_unverified_header(token.partition(".")[0] + "..")  # the rest is looked at once, below
        except PyJWTError:
            raise TokenError("the token is no JWT") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise TokenError(f"the algorithm {_short(algorithm)} is none of those that sign with a public key")
        key = self._keys.find(algorithm, key_id)
        if key is None:
            raise TokenError(
                f"there is no key {_short(key_id)} for {algorithm}" if key_id else f"there is no key for {algorithm}"
            )
        try:
            return _claims(_JWS.decode_complete(token, key, [algorithm])["payload"])
        except InvalidSignatureError:
            raise TokenError("the signature is wrong") from None
        except PyJWTError:
            raise TokenError("the token is no JWT") from None


class UnsecuredTokens:
    """Tokens without a signature, as tests use them."""

    __slots__ = ("_clock", "_scope", "_scope_claim", "_skew_ms", "_sub_claim")

    def __init__(self, *, sub_claim: str, scope_claim: str, scope: Sequence[str], skew_ms: int, clock: Clock) -> None:
        """`scope` are the scopes that a token must have."""
        self._sub_claim, self._scope_claim, self._scope, self._skew_ms = sub_claim, scope_claim, scope, skew_ms
        self._clock = clock

    def validate(self, token: str) -> Identity:
        """Return whose token this is, and until when. Raises TokenError."""
        try:
            parts = _JWS.decode_complete(token, options={"verify_signature": False})
        except PyJWTError:
            raise TokenError("the token is no JWT") from None
        if parts["header"].get("alg") != "none" or parts["signature"]:
            raise TokenError("the token is signed, and only those without a signature are accepted")
        claims = _claims(parts["payload"])
        name = _subject(claims, self._sub_claim)
        expires_ms = _expiry_ms(claims, "iat", now_ms=self._clock.time_ms(), skew_ms=self._skew_ms)
        scopes = claims.get(self._scope_claim)
        granted = {one.strip() for one in (scopes if isinstance(scopes, list) else [scopes]) if isinstance(one, str)}
        if not granted.issuperset(self._scope):
            raise TokenError("the token lacks a scope", user=name, scope=f"[{', '.join(self._scope)}]")
        return Identity(name, expires_ms)


def _claims(payload: bytes) -> _Claims:
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        raise TokenError("the claims of the token are no JSON") from None
    if not isinstance(claims, dict):
        raise TokenError("the claims of the token are no JSON object")
    return claims


def _subject(claims: _Claims, claim: str) -> str:
    """Return the user whose token it is. Raises TokenError."""
    subject = claims.get(claim)
    name = subject.strip() if isinstance(subject, str) else ""
    if not name:
        raise TokenError(f"the token names no user in its claim {claim}")
    if not name.isprintable():  # it goes into logs and responses
        raise TokenError(f"the name of the user in the claim {claim} is not printable")
    return name


def _expiry_ms(claims: _Claims, begin: str, *, now_ms: int, skew_ms: int) -> int:
    """Return when a token ends that is valid now. Its claim `begin` is when it begins. Raises TokenError."""
    ends_ms = _time_ms(claims, "exp")
    if ends_ms is None:
        raise TokenError("the token has no claim exp")
    if now_ms - skew_ms >= ends_ms:
        raise TokenError(f"the token expired {(now_ms - ends_ms) / 1000:.1f} s ago")
    for claim in ("iat", "nbf"):
        begins_ms = _time_ms(claims, claim)
        if begins_ms is not None and begins_ms >= ends_ms:
            raise TokenError(f"the token expires before its {claim}")
        if begins_ms is not None and claim == begin and begins_ms > now_ms + skew_ms:
            raise TokenError(f"the token is not valid for another {(begins_ms - now_ms) / 1000:.1f} s")
    return ends_ms


def _time_ms(claims: _Claims, claim: str) -> int | None:
    """Return the time that a claim has; None if there is no such claim. Raises TokenError."""
    seconds = claims.get(claim)
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < _SECONDS_MAX:
        raise TokenError(f"the claim {claim} of the token is no time")
    return int(seconds * 1000)


def _check_audience(found: object, wanted: Sequence[str]) -> None:
    """Check the audience as Kafka does, which accepts no audience where none is expected. Raises TokenError."""
    if found is None and not wanted:
        return
    if not any(one in wanted for one in (found if isinstance(found, list) else [found])):
        raise TokenError("the token is for another audience" if wanted else "the token has an audience, and none is expected")


def _check_scopes(found: object, claim: str) -> None:
    """Check that scopes are texts and no two the same, as Kafka does; they mean nothing to it. Raises TokenError."""
    scopes = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    names = [one.strip() if isinstance(one, str) else "" for one in scopes]
    if not all(names) or len(set(names)) < len(names):
        raise TokenError(f"the claim {claim} of the token is no list of scopes")


def _short(value: object) -> str:
    return repr(value)[:50]
