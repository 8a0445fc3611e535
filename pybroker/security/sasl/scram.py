"""SCRAM-SHA-256 and SCRAM-SHA-512: the client proves that it knows the password, and so does the broker (RFC 5802, RFC 7677).

A user that does not exist gets a salt that is the same at each try, and fails with the last message, as with a wrong password. So
neither the responses nor their times show whether a user exists.

Source: ScramSaslServer, ScramMessages, ScramFormatter.
"""

from __future__ import annotations

import hmac
import re
import secrets
from binascii import a2b_base64, b2a_base64
from typing import TYPE_CHECKING, Final, Protocol

from pybroker.security.sasl.exchange import Identity, RefusedError, SaslError
from pybroker.security.sasl.scram_credentials import ITERATIONS_MIN, SALT_BYTES, Credential, ScramMechanism

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.security.sasl.token_logins import TokenLogin

MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"

NONCE_BYTES: Final = 24

TOKEN_AUTH: Final = "tokenauth"  # noqa: S105  a name
"""The extension of a client whose user is a delegation token's id."""

_NAME: Final = r"(?:[^\x00=,]|=2C|=3D)+"
_EXTENSIONS: Final = r"(?P<extensions>(?:,[A-Za-z]+=[^\x00,]+)*)"
_FIRST: Final = re.compile(
    rf"(?P<header>[ny],(?:a=(?P<authorization>{_NAME}))?,)(?P<bare>(?:m=[^\x00,]+,)?n=(?P<user>{_NAME}),r=(?P<nonce>[!-+\--~]+){_EXTENSIONS})"
)
_FINAL: Final = re.compile(rf"c=(?P<channel>[A-Za-z0-9/+=]+),r=(?P<nonce>[!-+\--~]+){_EXTENSIONS},p=[A-Za-z0-9/+=]+")
HEADER: Final = "n,,"
"""The beginning of a client's first message that has no authorization id."""
CHANNEL_TEXT: Final = "biws"
"""That header in base64: the channel in the last message of Kafka's client, whatever its first message begins with."""


class Users(Protocol):
    """The credentials of users, as the cluster has them now."""

    def credential(self, mechanism: ScramMechanism, user: str) -> Credential | None:
        """Return the credential of a user; None if there is none."""

    def token(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin | None:
        """Return what a delegation token logs in to; None if there is none."""

    def secret(self) -> bytes:
        """Return a secret of the cluster, from which the salts of unknown users are made."""


def _new_nonce() -> str:
    return _base64(secrets.token_bytes(NONCE_BYTES))


class Scram:
    """One of the two mechanisms, with its users. `of_unknown` is a credential without a password, and without a salt."""

    __slots__ = ("mechanism", "new_nonce", "of_unknown", "users")

    def __init__(self, mechanism: ScramMechanism, users: Users, new_nonce: Callable[[], str] = _new_nonce) -> None:
        self.mechanism, self.users, self.new_nonce = mechanism, users, new_nonce
        no_key = mechanism.hash(secrets.token_bytes(SALT_BYTES))
        self.of_unknown = Credential(b"", no_key, no_key, ITERATIONS_MIN)

    def begin(self) -> ScramExchange:
        """Return a new login."""
        return ScramExchange(self)

    def salt_of_unknown(self, user: str) -> bytes:
        """Return the salt of a user that does not exist."""
        return self.mechanism.hmac(self.users.secret(), f"{self.mechanism.name}/{user}".encode())[:SALT_BYTES]


class ScramExchange:
    """One login: two messages of the client, and two of the broker."""

    __slots__ = ("_claimed", "_credential", "_header", "_messages", "_nonce", "_scram", "identity", "user")

    def __init__(self, scram: Scram) -> None:
        self._scram = scram
        self.identity: Identity | None = None
        self.user = self._header = self._nonce = self._messages = ""
        self._credential: Credential | None = None
        self._claimed: Identity | None = None  # the user that the client is if it has the password; None: it does not exist

    def respond(self, token: bytes) -> bytes:
        """Take the next message. Raises SaslError."""
        try:
            text = token.decode()
        except UnicodeDecodeError as error:
            raise SaslError("the message is not UTF-8") from error
        return (self._first(text) if self._credential is None else self._final(text, self._credential)).encode()

    def _first(self, text: str) -> str:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise SaslError("the first message is not that of SCRAM")
        self.user = _unescaped(match["user"])
        if match["authorization"] is not None and _unescaped(match["authorization"]) != self.user:
            raise RefusedError("Authentication failed: Client requested an authorization id that is different from username")
        mechanism, users = self._scram.mechanism, self._scram.users
        if not _is_by_token(match["extensions"]):
            found = users.credential(mechanism, self.user)
            self._claimed = None if found is None else Identity(self.user)
        elif (token := users.token(mechanism, self.user)) is not None:
            found = token.credential
            self._claimed = Identity(token.owner, token.expires_ms, is_token=True)
        else:
            found = None
        salt = self._scram.salt_of_unknown(self.user)  # made for all, so that a user that exists takes as long
        if found is not None:
            salt = found.salt
        self._credential = credential = found or self._scram.of_unknown
        self._nonce = match["nonce"] + self._scram.new_nonce()
        self._header = match["header"]
        response = f"r={self._nonce},s={_base64(salt)},i={credential.iterations}"
        self._messages = f"{match['bare']},{response}"
        return response

    def _final(self, text: str, credential: Credential) -> str:
        unproved, _, proof_text = text.rpartition(",p=")
        if unproved != f"c={CHANNEL_TEXT},r={self._nonce}":  # as nearly every client sends it
            self._check(text)
        mechanism = self._scram.mechanism
        messages = f"{self._messages},{unproved}".encode()
        signature = mechanism.hmac(credential.stored_key, messages)
        try:
            proof = a2b_base64(proof_text, strict_mode=True)
        except ValueError as error:
            raise SaslError("the proof is not base64") from error
        is_proved = len(proof) == len(signature) and hmac.compare_digest(
            mechanism.hash((int.from_bytes(proof) ^ int.from_bytes(signature)).to_bytes(len(signature))), credential.stored_key
        )
        if not is_proved or self._claimed is None:
            raise SaslError("the user does not exist" if self._claimed is None else "the password is wrong")
        self.identity = self._claimed
        return f"v={_base64(mechanism.hmac(credential.server_key, messages))}"

    def _check(self, text: str) -> None:
        """Check the last message, but for its proof. Raises SaslError."""
        match = _FINAL.fullmatch(text)
        if match is None:
            raise SaslError("the last message is not that of SCRAM")
        if match["nonce"] != self._nonce:
            raise SaslError("the last message has another nonce")
        if match["channel"] not in (CHANNEL_TEXT, _base64(self._header.encode())):
            raise SaslError("the last message is of another channel")


def _is_by_token(extensions: str) -> bool:
    """Return whether the user is a delegation token's id. Other extensions are ignored, as in Kafka."""
    if not extensions:
        return False
    fields = dict(one.split("=", 1) for one in extensions.split(",")[1:])
    return fields.get(TOKEN_AUTH, "").lower() == "true"


def escaped(name: str) -> str:
    """Return a user's name as a message has it."""
    return name.replace("=", "=3D").replace(",", "=2C")


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
