"""Makes the contexts of OpenSSL from the properties. A bad file, password or pair is a ConfigError that names the property.

As in Java, a certificate in the trust store is trusted whatever signed it, and revocation is not checked.

Source: SslFactory, DefaultSslEngineFactory.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from pybroker.security.tls.cipher_suites import TLS_1_3, openssl_name
from pybroker.security.tls.stores import KeyStore, as_file, read_key_store, read_trust_store

if TYPE_CHECKING:
    from pybroker.security.tls.settings import TlsSettings

_VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a listener. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    keys = read_key_store(settings)
    if keys is None:
        raise settings.error("ssl.keystore.location", "must name the key store of the broker, because a listener has TLS")
    _set_versions(context, settings)
    _load_keys(context, keys, settings)
    context.verify_mode = _CLIENT_AUTH[settings["ssl.client.auth"]]
    if context.verify_mode is not ssl.CERT_NONE:
        _load_trust(context, settings, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a client, which has a certificate of its own if there is a key store. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings["ssl.endpoint.identification.algorithm"] != ""
    keys = read_key_store(settings)
    _set_versions(context, settings)
    if keys is not None:
        _load_keys(context, keys, settings)
    _load_trust(context, settings, ssl.Purpose.SERVER_AUTH)
    return context


def _set_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    names = settings["ssl.enabled.protocols"] or ("TLSv1.2", "TLSv1.3")
    wanted = set(names)
    wanted -= _set_suites(context, settings)
    if not wanted:
        raise settings.error("ssl.cipher.suites", f"has no suite of {settings.key('ssl.enabled.protocols')}={','.join(names)}")
    ordered = [name for name in _VERSIONS if name in wanted]
    if len(ordered) <= list(_VERSIONS).index(ordered[-1]) - list(_VERSIONS).index(ordered[0]):
        raise settings.error("ssl.enabled.protocols", f"must leave out no version between {ordered[0]} and {ordered[-1]}")
    context.minimum_version, context.maximum_version = _VERSIONS[ordered[0]], _VERSIONS[ordered[-1]]


def _set_suites(context: ssl.SSLContext, settings: TlsSettings) -> set[str]:
    """Choose the cipher suites, and return the versions of TLS for which none is chosen."""
    suites = settings["ssl.cipher.suites"]
    if not suites:
        return set()
    of_1_3 = TLS_1_3 & set(suites)
    if of_1_3 and of_1_3 != TLS_1_3:
        reason = f"must name all suites of TLS 1.3 or none, because Python cannot choose among them: {', '.join(sorted(TLS_1_3))}"
        raise settings.error("ssl.cipher.suites", reason)
    others = [name for name in suites if name not in TLS_1_3]
    for name in others:
        try:
            context.set_ciphers(openssl_name(name))
        except ssl.SSLError:
            raise settings.error("ssl.cipher.suites", f"{name} is not a cipher suite of {ssl.OPENSSL_VERSION}") from None
    if others:
        context.set_ciphers(":".join(map(openssl_name, others)))
    return (set() if of_1_3 else {"TLSv1.3"}) | (set() if others else {"TLSv1", "TLSv1.1", "TLSv1.2"})


def _load_keys(context: ssl.SSLContext, keys: KeyStore, settings: TlsSettings) -> None:
    with as_file(keys.pem) as path:
        try:
            context.load_cert_chain(path, password=lambda: keys.password or "")
        except (ssl.SSLError, OSError, ValueError) as error:
            raise settings.error(*_fault_of_keys(keys, error, settings)) from error


def _fault_of_keys(keys: KeyStore, error: Exception, settings: TlsSettings) -> tuple[str, str]:
    """Return the property at fault, and what is wrong with it."""
    if b"-----BEGIN CERTIFICATE-----" not in keys.pem:
        return keys.name, "has no certificate in PEM"
    if b"PRIVATE KEY-----" not in keys.pem:
        return keys.name, "has no private key in PEM"
    reason = getattr(error, "reason", None) or str(error)
    if reason == "KEY_VALUES_MISMATCH":
        return keys.name, "the key is not that of the first certificate"
    if b"ENCRYPTED" in keys.pem:
        if keys.password is None:
            return keys.name, f"the key is encrypted: set {settings.key('ssl.key.password')}"
        return "ssl.key.password", "does not decrypt the key"
    return keys.name, f"OpenSSL does not accept the key with its certificates ({reason})"


def _load_trust(context: ssl.SSLContext, settings: TlsSettings, purpose: ssl.Purpose) -> None:
    trusted = read_trust_store(settings)
    if trusted is None:
        context.load_default_certs(purpose)
        return
    in_property = settings["ssl.truststore.certificates"] is not None
    name = "ssl.truststore.certificates" if in_property else "ssl.truststore.location"
    try:
        context.load_verify_locations(cadata=trusted)
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise settings.error(name, f"OpenSSL does not accept the certificates ({reason})") from error
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
