"""PLAIN: the user's name and password in one token (RFC 4616).

The users are the options `user_NAME=PASSWORD` of the login module. A name that does not exist takes as long as one that does.

Source: PlainSaslServer, PlainServerCallbackHandler.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Final

from pybroker.security.sasl.exchange import Identity, RefusedError, SaslError

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = "PLAIN"
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
USER_PREFIX: Final = "user_"


class Plain:
    """The mechanism, with the passwords of its users."""

    __slots__ = ("_key", "_of_none", "_passwords")

    def __init__(self, options: Mapping[str, str]) -> None:
        """Take the users from the options of a login module."""
        self._key = secrets.token_bytes(32)  # so that passwords are compared by texts of one length, which no client can foresee
        self._passwords = {
            name.removeprefix(USER_PREFIX): self._digest(password)
            for name, password in options.items()
            if name.startswith(USER_PREFIX)
        }
        self._of_none = secrets.token_bytes(32)

    def begin(self) -> PlainExchange:
        """Return a new login."""
        return PlainExchange(self)

    def is_password(self, user: str, password: str) -> bool:
        """Return whether this is the password of a user that exists."""
        return hmac.compare_digest(self._passwords.get(user, self._of_none), self._digest(password))

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode("utf-8", "surrogatepass"), hashlib.sha256)


class PlainExchange:
    """One login."""

    __slots__ = ("_plain", "identity", "user")

    def __init__(self, plain: Plain) -> None:
        self._plain = plain
        self.identity: Identity | None = None
        self.user = ""

    def respond(self, token: bytes) -> bytes:
        """Take the only token; the response is empty. Raises SaslError."""
        try:
            fields = token.decode().split("\0")
        except UnicodeDecodeError as error:
            raise SaslError("the token is not UTF-8") from error
        if len(fields) != 3:
            raise SaslError("the token has not three fields")
        authorization_id, self.user, password = fields
        if not self.user:
            raise SaslError("the token has no user")
        if not password:
            raise SaslError("the token has no password")
        if not self._plain.is_password(self.user, password):
            raise RefusedError("Authentication failed: Invalid username or password")
        if authorization_id not in ("", self.user):
            raise RefusedError("Authentication failed: Client requested an authorization id that is different from username")
        self.identity = Identity(self.user)
        return b""
