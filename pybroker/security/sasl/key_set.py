"""A JSON Web Key Set: the public keys that verify the signatures of tokens (RFC 7517).

It needs the packages PyJWT and cryptography. Keys that are not for this, or not usable, are left out, as the RFC has it.

Source: jose4j's VerificationJwkSelector, which Kafka uses.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jwt import PyJWK, PyJWTError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEY_SET_BYTES_MAX: Final = 1 << 20
_RSA_BITS: Final = range(2_048, 8_193)  # fewer are weak, and more take the loop too long
_MEMBERS: Final = ("kty", "crv", "n", "e", "x", "y")  # of a public key; the private ones are left out

ALGORITHMS: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", "")),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""The algorithms of signatures that count, with the type and the curve of their keys. None of them has a secret key."""


class _Key(NamedTuple):
    id: str | None
    kind: tuple[str, str]
    algorithm: str | None
    key: Any


class KeySet:
    """The keys of one document."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Sequence[_Key]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._keys)

    def find(self, algorithm: str, key_id: str | None) -> Any:
        """Return the first key for an algorithm, with this id if there is one; None if there is no such key."""
        for one in self._keys:
            if one.kind == ALGORITHMS[algorithm] and key_id in (None, one.id) and one.algorithm in (None, algorithm):
                return one.key
        return None


def parse_key_set(document: bytes) -> KeySet:
    """Return the keys of a document. Raises ValueError, whose text is what is wrong with the document."""
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    members = parsed.get("keys") if isinstance(parsed, dict) else None
    listed = members if isinstance(members, list) else []
    keys = [key for member in listed if isinstance(member, dict) and (key := _usable(member)) is not None]
    if not keys:
        raise ValueError("has no key that can verify a signature")
    return KeySet(keys)


def _usable(member: Mapping[str, Any]) -> _Key | None:
    """Return a key; None for one that verifies no signatures."""
    kind, key_id, algorithm = (member.get("kty"), member.get("crv", "")), member.get("kid"), member.get("alg")
    operations = member.get("key_ops", ["verify"])
    usual = next((name for name, wanted in ALGORITHMS.items() if wanted == kind), None)
    if usual is None or member.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        return None
    try:
        key = PyJWK({name: member[name] for name in _MEMBERS if name in member}, usual).key
    except (PyJWTError, TypeError, ValueError, AttributeError):
        return None
    if kind[0] == "RSA" and key.key_size not in _RSA_BITS:
        return None
    return _Key(key_id, ALGORITHMS[usual], algorithm, key)
