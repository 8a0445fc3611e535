"""Which tokens count: their signatures, their times, and the other claims."""

from __future__ import annotations

import json
import random
from base64 import urlsafe_b64encode
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pybroker.clock import ManualClock
from pybroker.security.sasl.bearer_tokens import Expected, SignedTokens, UnsecuredTokens
from pybroker.security.sasl.exchange import Identity
from pybroker.security.sasl.key_set import ALGORITHMS, parse_key_set
from pybroker.security.sasl.oauthbearer import TokenError
from testing.clients.tokens import Issuer, claims, unsecured

NOW_S: Final = 1_000_000
ISSUER: Final = Issuer()
EXPECTED: Final = Expected(audiences=(), issuer=None, skew_ms=30_000, scope_claim="scope", sub_claim="sub")
RSA_KEY: Final = rsa.generate_private_key(65_537, 2_048)


def signed(expected: Expected = EXPECTED, keys: bytes | None = None) -> SignedTokens:
    return SignedTokens(parse_key_set(keys or ISSUER.document()), expected, ManualClock(NOW_S * 1_000))


def token(user: str = "alice", lives_s: float = 600, **more: Any) -> str:
    return ISSUER.token(user, lives_s=lives_s, now_s=NOW_S, **more)


def refusal(tokens: SignedTokens | UnsecuredTokens, text: str) -> TokenError:
    with pytest.raises(TokenError) as refused:
        tokens.validate(text)
    return refused.value


def segment(value: object) -> str:
    return urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).decode().rstrip("=")


def test_a_token_with_a_signature_names_its_user_and_its_end() -> None:
    assert signed().validate(token(" alice ")) == Identity("alice", (NOW_S + 600) * 1_000)
    assert signed(EXPECTED._replace(sub_claim="email")).validate(token(email="a@b")).name == "a@b"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_has_its_keys(algorithm: str) -> None:
    curves = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}
    kind, curve = ALGORITHMS[algorithm]
    key: Any = RSA_KEY if kind == "RSA" else ec.generate_private_key(curves[curve]) if kind == "EC" else None
    key = key or ed25519.Ed25519PrivateKey.generate()
    public = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    tokens = signed(keys=json.dumps({"keys": [public]}).encode())
    assert tokens.validate(jwt.api_jws.encode(claims("alice", 600, NOW_S, {}), key, algorithm)).name == "alice"
    if kind == "RSA":  # a key may be for one algorithm only
        of_another = json.dumps({"keys": [{**public, "alg": "RS256" if algorithm != "RS256" else "RS512"}]}).encode()
        text = jwt.api_jws.encode(claims("alice", 600, NOW_S, {}), key, algorithm)
        assert str(refusal(signed(keys=of_another), text)) == f"there is no key for {algorithm}"


def test_a_token_that_another_issuer_signed_or_that_was_changed_is_refused() -> None:
    assert str(refusal(signed(), Issuer().token(now_s=NOW_S))) == "the signature is wrong"
    header, _, signature = token().split(".")
    of_eve = segment(claims("eve", 600, NOW_S, {}))
    assert str(refusal(signed(), f"{header}.{of_eve}.{signature}")) == "the signature is wrong"
    assert str(refusal(signed(), f"{header}.{of_eve}.")) == "the signature is wrong"


def test_the_public_key_is_no_secret_key() -> None:
    """The confusion of algorithms: HMAC whose secret is the public key, which is no secret."""
    public = RSA_KEY.public_key()
    keys = json.dumps({"keys": [jwt.get_algorithm_by_name("RS256").to_jwk(public, as_dict=True)]}).encode()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header, payload = segment({"alg": "HS256"}), segment(claims("eve", 600, NOW_S, {}))
    signature = jwt.get_algorithm_by_name("HS256").sign(f"{header}.{payload}".encode(), pem)
    forged = f"{header}.{payload}.{segment(signature)}"
    assert str(refusal(signed(keys=keys), forged)) == "the algorithm 'HS256' is none of those that sign with a public key"
    secret = json.dumps({"keys": [ISSUER.public(), {"kty": "oct", "k": "c2VjcmV0", "kid": "s"}]}).encode()
    assert "HS256" in str(refusal(signed(keys=secret), jwt.api_jws.encode(claims("eve", 600, NOW_S, {}), b"secret" * 6, "HS256")))
    algorithms: list[object] = ["none", "None", "", None, ["ES256"], {}]
    for algorithm in algorithms:
        text = f"{segment({'alg': algorithm})}.{payload}."
        assert "is none of those" in str(refusal(signed(), text))
    assert str(refusal(signed(), f"{segment({'alg': 'RS256'})}.{payload}.AAAA")) == "there is no key for RS256"


def test_a_token_names_its_key() -> None:
    other = Issuer("other")
    keys = ISSUER.document(other)
    assert signed(keys=keys).validate(other.token("bob", now_s=NOW_S)).name == "bob"
    unknown = Issuer("it's\n")
    assert str(refusal(signed(keys=keys), unknown.token(now_s=NOW_S))) == 'there is no key "it\'s\\n" for ES256'
    unnamed = jwt.api_jws.encode(claims("alice", 600, NOW_S, {}), ISSUER.key, "ES256")
    assert signed(keys=keys).validate(unnamed).name == "alice"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"exp": NOW_S - 30}, "the token expired 30.0 s ago"),
        ({"exp": None}, "the token has no claim exp"),
        ({"exp": "soon"}, "the claim exp of the token is no time"),
        ({"exp": True}, "the claim exp of the token is no time"),
        ({"exp": float("inf")}, "the claim exp of the token is no time"),
        ({"exp": float("nan")}, "the claim exp of the token is no time"),
        ({"exp": 10**40}, "the claim exp of the token is no time"),
        ({"exp": -1}, "the claim exp of the token is no time"),
        ({"iat": None}, "the token has no claim iat"),
        ({"iat": []}, "the claim iat of the token is no time"),
        ({"iat": NOW_S + 600}, "the token expires before its iat"),
        ({"nbf": NOW_S + 31}, "the token is not valid for another 31.0 s"),
        ({"nbf": NOW_S + 900}, "the token expires before its nbf"),
        ({"aud": "kafka"}, "the token has an audience, and none is expected"),
        ({"aud": []}, "the token has an audience, and none is expected"),
        ({"scope": ["a", "a "]}, "the claim scope of the token is no list of scopes"),
        ({"scope": [1]}, "the claim scope of the token is no list of scopes"),
        ({"scope": " "}, "the claim scope of the token is no list of scopes"),
    ],
)
def test_a_token_has_claims_that_fit(more: dict[str, Any], reason: str) -> None:
    error = refusal(signed(), token(**more))
    assert (str(error), error.user, error.scope) == (reason, "alice", "")


@pytest.mark.parametrize(
    "more", [{"exp": NOW_S - 29, "iat": NOW_S - 90}, {"nbf": NOW_S + 30}, {"iat": NOW_S + 100}, {"scope": ["a", "b"]}]
)
def test_the_clock_of_the_issuer_may_be_another(more: dict[str, Any]) -> None:
    assert signed().validate(token(**more)).name == "alice"


@pytest.mark.parametrize("subject", [None, "", "  ", 7, ["alice"], "a\nb", "a\x00b", "\ud800"])
def test_a_user_has_a_name_that_can_be_printed(subject: object) -> None:
    for tokens, text in ((signed(), token(sub=subject)), (UNSECURED, unsecured(now_s=NOW_S, sub=subject))):
        assert "the user in" in str(refusal(tokens, text)).replace("no user in", "the user in")


def test_the_audience_and_the_issuer_are_those_of_the_settings() -> None:
    tokens = signed(EXPECTED._replace(audiences=("kafka", "other"), issuer="https://issuer"))
    for audience in ("kafka", ["x", "other"]):
        assert tokens.validate(token(aud=audience, iss="https://issuer")).name == "alice"
    others: list[object] = [None, "x", ["x"], [], 7, {"kafka": 1}]
    for other in others:
        assert str(refusal(tokens, token(aud=other, iss="https://issuer"))) == "the token is for another audience"
    for issuer in (None, "https://issuer/", ["https://issuer"]):
        assert str(refusal(tokens, token(aud="kafka", iss=issuer))) == "the token is of another issuer"


UNSECURED: Final = UnsecuredTokens(
    sub_claim="sub", scope_claim="scope", scope=[], skew_ms=1_000, clock=ManualClock(NOW_S * 1_000)
)


def test_a_token_without_a_signature_counts_only_where_it_is_asked_for() -> None:
    assert UNSECURED.validate(unsecured(now_s=NOW_S)) == Identity("alice", (NOW_S + 600) * 1_000)
    assert UNSECURED.validate(unsecured(now_s=NOW_S, iat=None)).name == "alice"
    assert "is signed" in str(refusal(UNSECURED, token()))
    assert "is signed" in str(refusal(UNSECURED, f"{unsecured(now_s=NOW_S)}AAAA"))
    assert str(refusal(UNSECURED, unsecured(now_s=NOW_S, exp=NOW_S - 1))) == "the token expired 1.0 s ago"
    assert str(refusal(UNSECURED, unsecured(now_s=NOW_S, iat=NOW_S + 2))) == "the token is not valid for another 2.0 s"
    assert str(refusal(signed(), unsecured(now_s=NOW_S))) == "the algorithm 'none' is none of those that sign with a public key"


def test_a_token_without_a_signature_may_need_scopes() -> None:
    tokens = UnsecuredTokens(
        sub_claim="user", scope_claim="s", scope=["read", "write"], skew_ms=0, clock=ManualClock(NOW_S * 1_000)
    )
    assert tokens.validate(unsecured(now_s=NOW_S, user="bob", s=["write", " read ", "x"])).name == "bob"
    for scopes in (None, "read write", ["read"], 7):
        error = refusal(tokens, unsecured(now_s=NOW_S, user="bob", s=scopes))
        assert (error.user, error.scope) == ("bob", "[read, write]")


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "a.b.c",
        "a",
        "....",
        f"{segment([])}.e30.AAAA",
        f"{segment({'alg': 'ES256', 'kid': 7})}.e30.AAAA",
        f"{segment({'alg': 'ES256', 'b64': False, 'crit': ['b64']})}..AAAA",
        f"{segment({'alg': 'ES256', 'crit': ['x']})}.e30.AAAA",
        "[" * 9_000,
        f"{urlsafe_b64encode(b'[' * 9_000).decode()}.e30.AAAA",
    ],
)
def test_a_text_that_is_no_token_is_refused(text: str) -> None:
    for tokens in (signed(), UNSECURED):
        assert len(str(refusal(tokens, text))) < 100


@pytest.mark.parametrize("payload", [b"", b"[]", b"7", b"{", b"\xff", b'{"exp":' + b"9" * 5_000 + b"}", b"[" * 9_000])
def test_claims_are_a_json_object(payload: bytes) -> None:
    text = jwt.api_jws.encode(payload, ISSUER.key, "ES256")
    assert "the claims of the token are no JSON" in str(refusal(signed(), text))


def test_mutated_tokens_are_refused() -> None:
    generator, tokens, whole = random.Random(7519), signed(), token()
    for number in range(1_000):
        changed = list(whole)
        for _ in range(1 + number % 3):
            changed[generator.randrange(len(changed))] = generator.choice("A.b_-=~+/9")
        if "".join(changed) != whole:
            refusal(tokens, "".join(changed))
