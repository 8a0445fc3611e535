"""Key and trust stores of each kind are read, and faults are refused with the property and without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from pybroker.config.broker import BrokerConfig
from pybroker.config.load import load
from pybroker.config.setting import ConfigError
from pybroker.security.tls.certificates import issued
from pybroker.security.tls.cipher_suites import openssl_name
from pybroker.security.tls.contexts import client_context, server_context
from pybroker.security.tls.settings import settings_of_listener
from testing.clients.certificates import Stores

SECRET = "correct-horse"


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


def config(properties: dict[str, str]) -> BrokerConfig:
    return load(overrides=properties).config


def refusal(properties: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        server_context(settings_of_listener(config(properties), "SSL"))
    assert SECRET not in str(caught.value)
    assert "PRIVATE KEY" not in str(caught.value)
    return str(caught.value)


def loads(properties: dict[str, str]) -> None:
    settings = settings_of_listener(config(properties), "SSL")
    server_context(settings)
    client_context(settings)


def test_a_store_is_a_file_or_properties_or_pkcs12(stores: Stores) -> None:
    loads(stores.of_broker(ssl_client_auth="required"))
    encrypted = stores.pem("encrypted", stores.client_pair, SECRET)
    loads(stores.of_broker(ssl_keystore_location=encrypted, ssl_key_password=SECRET))
    key, chain = stores.client_pair.key_pem().decode(), stores.client_pair.certificate_pem().decode()
    inline = {"listeners": "SSL://:0", "ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}
    inline |= {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
    loads({**inline, "ssl.truststore.certificates": stores.authority.certificate_pem().decode()})
    loads({**inline, "ssl.keystore.key": key.replace("\n", " "), "ssl.keystore.certificate.chain": chain.replace("\n", " ")})


def pkcs12_stores(stores: Stores) -> dict[str, str]:
    pair, by = stores.client_pair, stores.authority.certificate
    keys = pkcs12.serialize_key_and_certificates(b"k", pair.key, pair.certificate, [by], BestAvailableEncryption(SECRET.encode()))
    trust = pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(by, b"ca")], BestAvailableEncryption(SECRET.encode()))
    return {
        "listeners": "SSL://:0",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": stores.write("keys.p12", keys),
        "ssl.keystore.password": SECRET,
        "ssl.truststore.location": stores.write("trust.jks", trust),
        "ssl.truststore.password": SECRET,
    }


def test_pkcs12_is_read_under_both_names(stores: Stores) -> None:
    properties = pkcs12_stores(stores)
    loads(properties)
    assert refusal({**properties, "ssl.keystore.password": f"{SECRET}?"}).startswith(
        "ssl.keystore.password=[hidden]: does not open"
    )
    del properties["ssl.truststore.password"]
    assert "cannot be opened without ssl.truststore.password" in refusal(properties)


def test_a_listener_has_properties_of_its_own(stores: Stores) -> None:
    other = stores.pem("other", issued(stores.authority, "CN=other"))
    properties = stores.of_broker() | {"listener.name.ssl.ssl.keystore.location": other}
    settings = settings_of_listener(config(properties), "SSL")
    assert (settings["ssl.keystore.location"], settings["ssl.truststore.location"]) == (other, stores.ca)
    assert settings_of_listener(config(properties), "OTHER")["ssl.keystore.location"] == stores.broker
    properties["listener.name.ssl.ssl.keystore.location"] = "/none"
    assert refusal(properties).startswith("listener.name.ssl.ssl.keystore.location=/none: cannot be read: No such file")


def test_a_sasl_listener_asks_for_a_certificate_only_by_its_own_property(stores: Stores) -> None:
    properties = stores.of_broker(ssl_client_auth="required")
    assert settings_of_listener(config(properties), "SSL", is_sasl=True)["ssl.client.auth"] == "none"
    own = config(properties | {"listener.name.ssl.ssl.client.auth": "required"})
    assert settings_of_listener(own, "SSL", is_sasl=True)["ssl.client.auth"] == "required"


def test_faults_of_stores_are_named(stores: Stores) -> None:
    broker = stores.of_broker()
    encrypted = stores.pem("encrypted", stores.client_pair, SECRET)
    mixed = stores.write("mixed.pem", issued(stores.authority, "CN=x").key_pem() + stores.client_pair.certificate_pem())
    jks = stores.write("old.jks", bytes.fromhex("feedfeed00000002"))
    cases = [
        ({"ssl.keystore.location": ""}, "ssl.keystore.location=: must name the key store"),
        ({"ssl.keystore.location": mixed}, f"ssl.keystore.location={mixed}: the key is not that of the first certificate"),
        ({"ssl.keystore.location": encrypted}, f"{encrypted}: the key is encrypted: set ssl.key.password"),
        ({"ssl.keystore.location": encrypted, "ssl.key.password": f"{SECRET}?"}, "ssl.key.password=[hidden]: does not decrypt"),
        ({"ssl.keystore.location": stores.ca}, "has no private key in PEM"),
        ({"ssl.keystore.location": stores.client_key}, "has no certificate in PEM"),
        ({"ssl.keystore.password": SECRET}, "ssl.keystore.password=[hidden]: does not belong to a PEM file"),
        ({"ssl.keystore.location": jks, "ssl.keystore.type": "JKS"}, "keytool -importkeystore -srckeystore old.jks"),
        ({"ssl.keystore.type": "PKCS12"}, "is a PEM file: set ssl.keystore.type=PEM"),
        ({"ssl.keystore.key": SECRET}, "must not be set beside the key"),
        (
            {"ssl.keystore.location": "", "ssl.keystore.key": SECRET},
            "ssl.keystore.key=[hidden]: needs ssl.keystore.certificate.chain",
        ),
        ({"ssl.client.auth": "required", "ssl.truststore.location": stores.client_key}, "has no certificate in PEM"),
        ({"ssl.cipher.suites": "TLS_NO_SUCH"}, "TLS_NO_SUCH is not a cipher suite of OpenSSL"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "must name all suites of TLS 1.3 or none"),
        ({"ssl.cipher.suites": "ECDHE-RSA-AES128-GCM-SHA256", "ssl.enabled.protocols": "TLSv1.3"}, "has no suite of"),
    ]
    for more, words in cases:
        assert words in refusal(broker | more), more


@pytest.mark.parametrize(
    ("name", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA", "DHE-RSA-AES256-SHA"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_suites_of_java_have_their_names_in_openssl(stores: Stores, name: str, openssl: str) -> None:
    assert openssl_name(name) == openssl
    context = server_context(settings_of_listener(config(stores.of_broker() | {"ssl.cipher.suites": name}), "SSL"))
    assert openssl in {suite["name"] for suite in context.get_ciphers()}
