"""OAUTHBEARER: a token from an issuer that the broker trusts, in one message (RFC 7628).

A token that is not valid gets a JSON text, which the client confirms by one more message before it gets the failure. Extensions
have the right form and no meaning, as in Kafka.

Source: OAuthBearerSaslServer, OAuthBearerClientInitialResponse; KIP-255.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from pybroker.security.sasl.exchange import ChallengeError, Identity, RefusedError, SaslError

NAME: Final = "OAUTHBEARER"
MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

MESSAGE_BYTES_MAX: Final = 16_384
"""The largest message. A token of this size holds the loop for 2 ms."""

_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authorization>(?:[\x01-+\--<>-\x7f]|=2C|=3D)+))?,\x01(?P<pairs>(?:[A-Za-z]+=[!-~ \t\r\n]+\x01)*)\x01"
)
_BEARER: Final = re.compile(r"bearer +(?P<token>[-_~+/.A-Za-z0-9]+=*)", re.IGNORECASE)


class TokenError(Exception):
    """A token that is not valid. The text is the reason, for the log, without a part of the token.

    Attributes:
        user: the user whose token it is, if that is known.
        scope: the scopes that the token lacks, as Kafka writes a list of them; empty where they are not the reason.
    """

    def __init__(self, reason: str, *, user: str = "", scope: str = "") -> None:
        super().__init__(reason)
        self.user, self.scope = user, scope


class Tokens(Protocol):
    """Decides about tokens."""

    def validate(self, token: str) -> Identity:
        """Return whose token this is, and until when. Raises TokenError."""


class OauthBearer:
    """The mechanism."""

    __slots__ = ("_tokens",)

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def begin(self) -> OauthBearerExchange:
        """Return a new login."""
        return OauthBearerExchange(self._tokens)


class OauthBearerExchange:
    """One login."""

    __slots__ = ("_tokens", "identity", "user")

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self.identity: Identity | None = None
        self.user = ""

    def respond(self, token: bytes) -> bytes:
        """Take the client's message; the response is empty. Raises SaslError, which for a bad token is a ChallengeError."""
        authorization, bearer = _parsed(token)
        try:
            identity = self._tokens.validate(bearer)
        except TokenError as error:
            self.user = error.user
            fields = f'"status":"insufficient_scope", "scope":"{error.scope}"' if error.scope else '"status":"invalid_token"'
            raise ChallengeError(f"{{{fields}}}", str(error)) from None
        self.user = identity.name
        if authorization not in ("", identity.name):
            found = f"({authorization}) that is different from the token's principal name ({identity.name})"
            raise RefusedError(f"Authentication failed: Client requested an authorization id {found}")
        self.identity = identity
        return b""


def _parsed(message: bytes) -> tuple[str, str]:
    """Return the authorization id of a client's first message, which may be empty, and the token. Raises SaslError."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise SaslError(f"the message has {len(message)} bytes, which is more than {MESSAGE_BYTES_MAX}")
    match = _FIRST.fullmatch(message.decode("latin-1"))
    if match is None:
        raise SaslError("the message is not that of OAUTHBEARER")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise SaslError("the message has no bearer token")
    return (match["authorization"] or "").replace("=2C", ",").replace("=3D", "="), bearer["token"]
