"""OAUTHBEARER as the settings have it: which tokens a listener accepts, and what is refused at the start."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from pybroker.clock import ManualClock
from pybroker.config.load import load
from pybroker.config.setting import ConfigError
from pybroker.metadata.image import empty_image
from pybroker.metadata.scram_users import ScramUsers
from pybroker.model import BrokerId
from pybroker.security import sasl
from pybroker.security.sasl.key_set import KeySet, parse_key_set
from pybroker.security.sasl.login import Login
from pybroker.security.sasl.oauthbearer_settings import SIGNED, UNSECURED, KeysAt
from pybroker.security.sasl.offers import Needs, offers
from testing.clients.tokens import Issuer, unsecured

PREFIX = "listener.name.sasl_plaintext.oauthbearer."
URL, HANDLER, JAAS = (
    f"{PREFIX}{name}" for name in ("sasl.oauthbearer.jwks.endpoint.url", "sasl.server.callback.handler.class", "sasl.jaas.config")
)
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
UNSECURED_MODULE = f'{MODULE} required unsecuredValidatorPrincipalClaimName="user";'
ISSUER = Issuer()
CLOCK = ManualClock(1_000_000_000)


def login_of(settings: dict[str, str], found: list[KeysAt] | None = None) -> Login:
    """Return a login at the only listener, which has chosen the mechanism. `found` gets where the keys are."""

    def keys_of(at: KeysAt) -> KeySet:
        (found if found is not None else []).append(at)
        return parse_key_set(ISSUER.document())

    basis = {"listeners": "SASL_PLAINTEXT://:9092", "inter.broker.listener.name": "SASL_PLAINTEXT"}
    config = load(overrides={**basis, "sasl.enabled.mechanisms": "OAUTHBEARER", **settings}).config
    users = ScramUsers(lambda: empty_image(BrokerId(1)), None)
    (offer,) = offers(config, Needs(users, keys_of, CLOCK)).values()
    login = Login(offer, on_again=lambda _: None, clock=CLOCK)
    login.choose("OAUTHBEARER", is_bare=False)
    return login


def principal_of(settings: dict[str, str], token: str) -> str:
    login = login_of(settings)
    login.take(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    return login.principal


def signed(**claims: Any) -> str:
    return ISSUER.token(now_s=CLOCK.time_ms() / 1_000, **claims)


@pytest.mark.parametrize("handler", [None, *SIGNED])
def test_tokens_are_signed_unless_the_settings_ask_for_others(handler: str | None) -> None:
    settings = {"sasl.oauthbearer.jwks.endpoint.url": "file:///keys.json"} | ({} if handler is None else {HANDLER: handler})
    assert principal_of(settings, signed()) == "User:alice"
    without = unsecured("eve", now_s=CLOCK.time_ms() / 1_000, user="eve")
    assert principal_of(settings, without) == ""
    if handler is not None:  # Kafka's class for signed tokens does not know the option
        assert principal_of(settings | {JAAS: UNSECURED_MODULE}, without) == ""


@pytest.mark.parametrize("settings", [{JAAS: UNSECURED_MODULE}, {HANDLER: UNSECURED, JAAS: UNSECURED_MODULE}])
def test_unsecured_tokens_have_to_be_asked_for(settings: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    assert principal_of(settings, unsecured(now_s=CLOCK.time_ms() / 1_000, user="bob")) == "User:bob"
    assert caplog.messages == ["The listener SASL_PLAINTEXT accepts tokens without a signature: its clients may be any user"]


def test_the_options_of_unsecured_tokens_count() -> None:
    module = f'{MODULE} required unsecuredValidatorRequiredScope="read" unsecuredValidatorAllowableClockSkewMs="2000";'
    now_s = CLOCK.time_ms() / 1_000
    assert principal_of({JAAS: module}, unsecured(now_s=now_s, lives_s=-1, iat=None, scope=["read"])) == "User:alice"
    assert principal_of({JAAS: module}, unsecured(now_s=now_s, lives_s=-3, iat=None, scope=["read"])) == ""
    assert principal_of({JAAS: module}, unsecured(now_s=now_s, scope=["write"])) == ""


def test_settings_of_the_listener_are_stronger() -> None:
    settings = {
        "sasl.oauthbearer.jwks.endpoint.url": "file:///keys.json",
        "sasl.oauthbearer.expected.issuer": "https://another",
        "listener.name.sasl_plaintext.sasl.oauthbearer.expected.issuer": "https://issuer",
        f"{PREFIX}sasl.oauthbearer.expected.audience": "kafka,other",
        f"{PREFIX}sasl.oauthbearer.sub.claim.name": "user",
        f"{PREFIX}sasl.oauthbearer.scope.claim.name": "s",
        f"{PREFIX}sasl.oauthbearer.clock.skew.seconds": "0",
    }
    right: dict[str, Any] = {"user": "bob", "iss": "https://issuer", "aud": "other"}
    assert principal_of(settings, signed(**right)) == "User:bob"
    wrongs: list[dict[str, Any]] = [
        {"iss": "https://another"},
        {"aud": "x"},
        {"user": None},
        {"s": [1]},
        {"exp": CLOCK.time_ms() / 1_000 - 1},
    ]
    for wrong in wrongs:
        assert principal_of(settings, signed(**{**right, **wrong})) == ""


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///a%20b/keys.json", "/a b/keys.json"),
        ("file://localhost/keys.json", "/keys.json"),
        ("https://issuer/keys?x=1", ""),
        ("http://[::1]:8080/", ""),
    ],
)
def test_keys_are_in_a_file_or_at_a_url(url: str, path: str) -> None:
    found: list[KeysAt] = []
    login_of({URL: url, "sasl.oauthbearer.jwks.endpoint.refresh.ms": "7", JAAS: f'{MODULE} required ssl.protocol="TLS";'}, found)
    assert found == [KeysAt(URL, url, path, 7, 100, 10_000, {"ssl.protocol": "TLS"})]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, f"{URL}=: is not set: OAUTHBEARER needs the keys that verify tokens"),
        ({URL: "keys.json"}, "must be file:///PATH, http://HOST/PATH or https://HOST/PATH"),
        ({URL: "file://keys.json"}, "must be file:///PATH"),
        ({URL: "https:///keys"}, "must be file:///PATH"),
        ({URL: "http://[::1/keys"}, "must be file:///PATH"),
        ({URL: "ftp://issuer/keys"}, "must be file:///PATH"),
        ({HANDLER: "com.example.Handler", URL: "file:///k"}, f"must be {SIGNED[0]} or {UNSECURED}"),
        ({f"{PREFIX}sasl.oauthbearer.clock.skew.seconds": "-1", URL: "file:///k"}, "must be at least 0"),
        ({JAAS: f'{MODULE} required unsecuredValidatorAllowableClockSkewMs="-1";'}, "must be a number of ms from 0 up"),
        ({JAAS: "org.apache.kafka.common.security.plain.PlainLoginModule required;", URL: "file:///k"}, f"module {MODULE}"),
        (
            {
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "listener.name.sasl_plaintext.scram-sha-256.sasl.server.callback.handler.class": "com.example.Handler",
            },
            "is for OAUTHBEARER only",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        login_of(settings)


def test_the_packages_of_an_extra_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pybroker.security.sasl.oauthbearer_settings", None)
    monkeypatch.delattr(sasl, "oauthbearer_settings")
    with pytest.raises(ConfigError, match=r"OAUTHBEARER needs the packages PyJWT and cryptography: pip install '\.\[security\]'"):
        login_of({URL: "file:///keys.json"})
