"""The server's part of a login, as the mechanisms have it in common: a client's tokens in, the server's tokens out.

Source: javax.security.sasl.SaslServer.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class SaslError(Exception):
    """A login that fails. The text is for the log: it may show whether a user exists, so no client gets it."""


class RefusedError(SaslError):
    """A login that fails, with a message that the client may get, too."""


class ChallengeError(SaslError):
    """A login that fails, of which the client learns by a token. Its next token gets the failure, with the same text.

    The reason is for the log.
    """

    def __init__(self, token: str, reason: str) -> None:
        super().__init__(token)
        self.reason = reason


class Identity(NamedTuple):
    """The user that a login has proved to be. `expires_ms` is when the proof ends, in ms since 1970; None: never. `is_token`: the
    proof was a delegation token.
    """

    name: str
    expires_ms: int | None = None
    is_token: bool = False


class Exchange(Protocol):
    """One login by one mechanism."""

    identity: Identity | None
    """The user that the client is; None as long as the login is not complete."""
    user: str
    """The name that the client has given, for the log; empty before."""

    def respond(self, token: bytes) -> bytes:
        """Take the client's next token, and return the server's. Raises SaslError, after which the exchange is over."""


class Mechanism(Protocol):
    """A mechanism as a listener has it."""

    def begin(self) -> Exchange:
        """Return a new login."""
