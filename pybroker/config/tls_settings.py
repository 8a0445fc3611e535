"""The table of broker properties about TLS.

Defaults and limits are those of Kafka 3.9, except where a description has another.

Source: SslConfigs, BrokerSecurityConfigs; KIP-651.
"""

from __future__ import annotations

from typing import Final

from pybroker.config.setting import Kind, Setting, all_of, one_of

_S, _T, _P = Kind.STRING, Kind.LIST, Kind.PASSWORD

STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")
CLIENT_AUTHS: Final = ("required", "requested", "none")
TLS_PROTOCOLS: Final = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")

TLS_SETTINGS: Final = (
    Setting(
        "ssl.keystore.type", _S, "JKS",
        "The format of the key store: PEM, or PKCS12. Of JKS, which is the default as in Kafka, only files that are PKCS12 inside"
        " are read, as `keytool` writes them since Java 9.",
        one_of(*STORE_TYPES),
    ),
    Setting(
        "ssl.keystore.location", _S, None,
        "The file with the broker's key and its certificate chain. The broker reads it again when it has changed.",
    ),
    Setting("ssl.keystore.password", _P, None, "The password of a PKCS12 key store. A PEM file has only ssl.key.password."),
    Setting("ssl.key.password", _P, None, "The password of the key, where the key is encrypted."),
    Setting("ssl.keystore.key", _P, None, "The key itself in PEM, in place of a file, for ssl.keystore.type=PEM."),
    Setting("ssl.keystore.certificate.chain", _P, None, "The certificates of ssl.keystore.key in PEM, the broker's own first."),
    Setting("ssl.truststore.type", _S, "JKS", "The format of the trust store, as ssl.keystore.type.", one_of(*STORE_TYPES)),
    Setting(
        "ssl.truststore.location", _S, None,
        "The file with the certificates of the authorities that the broker trusts. Without one, those of the system.",
    ),
    Setting("ssl.truststore.password", _P, None, "The password of a PKCS12 trust store."),
    Setting("ssl.truststore.certificates", _P, None, "The trusted certificates themselves in PEM, in place of a file."),
    Setting(
        "ssl.client.auth", _S, "none",
        "Whether a client must have a certificate: required; requested, so that a client without one is User:ANONYMOUS; none.",
        one_of(*CLIENT_AUTHS),
    ),
    Setting(
        "ssl.enabled.protocols", _T, ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS, of which the newest that both sides have is used. OpenSSL may refuse TLSv1 and TLSv1.1, as it does"
        " at the security level of most systems: then no client connects where only these are enabled.",
        all_of(*TLS_PROTOCOLS),
    ),
    Setting(
        "ssl.protocol", _S, "TLSv1.3",
        "Accepted for Kafka's files: ssl.enabled.protocols decides.", one_of("TLS", *TLS_PROTOCOLS),
    ),
    Setting(
        "ssl.cipher.suites", _T, (),
        "The cipher suites by their IANA names, as in Java; none means OpenSSL's choice. Either all suites of TLS 1.3 are"
        " named, or none of them.",
    ),
    Setting(
        "ssl.endpoint.identification.algorithm", _S, "https",
        "https: a connection to another broker checks that its certificate has its host name or address. Empty: it does not.",
        one_of("https", "HTTPS", ""),
    ),
    Setting(
        "ssl.principal.mapping.rules", _S, "DEFAULT",
        "How the distinguished name of a client's certificate becomes its user name: RULE:PATTERN/REPLACEMENT/[LU] and DEFAULT,"
        " separated by commas; the first rule that fits counts.",
    ),
)  # fmt: skip
