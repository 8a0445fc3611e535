"""The keys of a JSON Web Key Set: which count, and what is no such document."""

from __future__ import annotations

import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from pybroker.security.sasl.key_set import parse_key_set
from testing.clients.tokens import Issuer

ISSUER = Issuer()


@pytest.mark.parametrize(
    "more",
    [
        {"use": "enc"},
        {"key_ops": ["sign"]},
        {"key_ops": "verify"},
        {"kty": "oct", "k": "AAAA"},
        {"kty": "RSA"},
        {"kty": ["EC"]},
        {"crv": "P-384"},
        {"crv": "secp256k1"},
        {"x": 7},
        {"x": None},
        {"x": "AAAA"},
        {"y": "*"},
    ],
)
def test_keys_that_verify_nothing_are_left_out(more: dict[str, Any]) -> None:
    document = json.dumps({"keys": [ISSUER.public(**more), Issuer("second").public(), 7, None]}).encode()
    keys = parse_key_set(document)
    assert len(keys) == 1
    assert keys.find("ES256", "second") is not None
    assert keys.find("ES256", "first") is keys.find("ES384", None) is keys.find("RS256", None) is None


def test_a_key_of_rsa_is_long_enough() -> None:
    short = jwt.get_algorithm_by_name("RS256").to_jwk(rsa.generate_private_key(65_537, 1_024).public_key(), as_dict=True)
    assert len(parse_key_set(json.dumps({"keys": [ISSUER.public(), short]}).encode())) == 1


def test_a_private_key_serves_as_its_public_one() -> None:
    private = {**jwt.get_algorithm_by_name("ES256").to_jwk(ISSUER.key, as_dict=True)}
    key = parse_key_set(json.dumps({"keys": [private]}).encode()).find("ES256", None)
    assert not hasattr(key, "private_numbers")


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (b"", "is not JSON"),
        (b"<html>", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "has no key that can verify"),
        (b"{}", "has no key that can verify"),
        (b'{"keys": {}}', "has no key that can verify"),
        (b'{"keys": []}', "has no key that can verify"),
    ],
)
def test_other_documents_are_refused(document: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_key_set(document)
