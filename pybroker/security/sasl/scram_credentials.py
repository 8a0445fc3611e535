"""SCRAM's mechanisms and credentials: what the store has of a password, from which it cannot be found (RFC 5802, RFC 7677).

A credential as a text is Kafka's: `salt=...,stored_key=...,server_key=...,iterations=...`, in base64.

Source: ScramMechanism, ScramFormatter, ScramCredentialUtils.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Callable
from typing import Any, Final, NamedTuple

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
SALT_BYTES: Final = 24
_TEXT: Final = re.compile(r"salt=([^,]*),stored_key=([^,]*),server_key=([^,]*),iterations=([0-9]+)")


class ScramMechanism(NamedTuple):
    """One of the two mechanisms: its name, its number in requests, and its hash, by name and as `hashlib` has it."""

    name: str
    number: int
    hash_name: str
    new_hash: Callable[[bytes], Any]

    def hash(self, data: bytes) -> bytes:
        """Return H of RFC 5802."""
        digest: bytes = self.new_hash(data).digest()
        return digest

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """Return HMAC of RFC 5802."""
        return hmac.digest(key, data, self.hash_name)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return Hi of RFC 5802: several ms of work. As in Kafka, the password is not prepared otherwise than as UTF-8."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)

    def client_key(self, salted_password: bytes) -> bytes:
        """Return ClientKey of RFC 5802."""
        return self.hmac(salted_password, b"Client Key")


SHA_256: Final = ScramMechanism("SCRAM-SHA-256", 1, "sha256", hashlib.sha256)
SHA_512: Final = ScramMechanism("SCRAM-SHA-512", 2, "sha512", hashlib.sha512)
MECHANISMS: Final = {one.name: one for one in (SHA_256, SHA_512)}
BY_NUMBER: Final = {one.number: one for one in (SHA_256, SHA_512)}


class Credential(NamedTuple):
    """The part of a user's password that the broker knows."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def encode(self) -> str:
        """Return the credential as a text."""
        salt, stored_key, server_key = (b64encode(one).decode() for one in self[:3])
        return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={self.iterations}"


def decode(text: str) -> Credential:
    """Return the credential of a text. Raises ValueError, without a part of the text."""
    match = _TEXT.fullmatch(text)
    try:
        if match is not None:
            salt, stored_key, server_key, iterations = match.groups()
            return Credential(_bytes(salt), _bytes(stored_key), _bytes(server_key), int(iterations))
    except ValueError:
        pass
    raise ValueError("is no SCRAM credential")


def _bytes(text: str) -> bytes:
    return a2b_base64(text, strict_mode=True)


def of_salted_password(mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int) -> Credential:
    """Return the credential of a salted password, as a client sends it."""
    stored_key = mechanism.hash(mechanism.client_key(salted_password))
    return Credential(salt, stored_key, mechanism.hmac(salted_password, b"Server Key"), iterations)
