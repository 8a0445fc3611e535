"""Reads keys and certificates from where the properties have them.

    PEM      a file with the key and its chain, or a file with trusted certificates; or their texts in properties (KIP-651)
    PKCS12   a file, read by the package `cryptography`
    JKS      Java's own format, which no library in use reads; `keytool` converts it. Since Java 9 a file of this type is mostly
             PKCS12 inside, which Java reads under both names, and so does this.

A key is handed to OpenSSL as a file that only this process has, because Python's `ssl` takes no other form.

Source: DefaultSslEngineFactory.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker import extras

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.security.tls.settings import TlsSettings

_JKS_MAGIC: Final = bytes.fromhex("feedfeed")
_JCEKS_MAGIC: Final = bytes.fromhex("cececece")
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
STORE_BYTES_MAX: Final = 16 * 1024 * 1024


class KeyStore(NamedTuple):
    """A private key and the chain of its certificate, in PEM. `password` is that of the key; None if it is not encrypted.

    `name` is the property that has them, for errors.
    """

    pem: bytes
    password: str | None
    name: str


def read_key_store(settings: TlsSettings) -> KeyStore | None:
    """Return the key store of the properties; None if they name none. Raises ConfigError."""
    location, key, chain = (settings[f"ssl.keystore.{part}"] for part in ("location", "key", "certificate.chain"))
    if key is not None or chain is not None:
        if settings["ssl.keystore.type"] != "PEM":
            raise settings.error("ssl.keystore.type", "must be PEM, because the key store is in properties")
        if location is not None:
            raise settings.error("ssl.keystore.location", "must not be set beside the key in ssl.keystore.key")
        if key is None or chain is None:
            missing, given = ("key", "certificate.chain") if key is None else ("certificate.chain", "key")
            raise settings.error(f"ssl.keystore.{given}", f"needs {settings.key(f'ssl.keystore.{missing}')} beside it")
        return KeyStore(_pem(key) + b"\n" + _pem(chain), settings["ssl.key.password"], "ssl.keystore.key")
    if location is None:
        return None
    content = _content(settings, "ssl.keystore")
    if settings["ssl.keystore.type"] == "PEM":
        if settings["ssl.keystore.password"] is not None:
            raise settings.error("ssl.keystore.password", "does not belong to a PEM file: ssl.key.password is that of its key")
        return KeyStore(content, settings["ssl.key.password"], "ssl.keystore.location")
    return _pkcs12_keys(settings, content)


def read_trust_store(settings: TlsSettings) -> str | None:
    """Return the trusted certificates in PEM; None if the properties name none. Raises ConfigError."""
    location, certificates = settings["ssl.truststore.location"], settings["ssl.truststore.certificates"]
    if certificates is not None:
        if settings["ssl.truststore.type"] != "PEM":
            raise settings.error("ssl.truststore.type", "must be PEM, because the certificates are in a property")
        if location is not None:
            raise settings.error("ssl.truststore.location", "must not be set beside ssl.truststore.certificates")
        name, content = "ssl.truststore.certificates", _pem(certificates)
    elif location is None:
        return None
    else:
        name, content = "ssl.truststore.location", _content(settings, "ssl.truststore")
        if settings["ssl.truststore.type"] != "PEM":
            return _pkcs12_certificates(settings, content)
        if settings["ssl.truststore.password"] is not None:
            raise settings.error("ssl.truststore.password", "does not belong to a PEM file, which has no password")
    if _CERTIFICATE not in content:
        raise settings.error(name, "has no certificate in PEM")
    return content.decode("ascii", "replace")


def store_files(settings: TlsSettings) -> tuple[str, ...]:
    """Return the paths of the files that the properties name."""
    locations = (settings["ssl.keystore.location"], settings["ssl.truststore.location"])
    return tuple(location for location in locations if location is not None)


@contextmanager
def as_file(content: bytes) -> Iterator[str]:
    """Give the path of a file with this content that only this process can open, and that is gone afterwards."""
    is_in_memory = hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir()
    if is_in_memory:
        descriptor = os.memfd_create("pem")
        path = f"/proc/self/fd/{descriptor}"
    else:
        descriptor, path = tempfile.mkstemp()  # mode 0600
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield path
    finally:
        os.close(descriptor)
        if not is_in_memory:
            Path(path).unlink()


def _pem(text: str) -> bytes:
    """Return a PEM text of a property, in which a line may have been joined to the next by a blank, as in an environment."""
    lines = text.replace("\\n", "\n").strip()
    if "\n" not in lines:
        lines = lines.replace("-----BEGIN ", "\n-----BEGIN ").replace("-----END ", "\n-----END ")
        lines = "\n".join(_unjoined(line) for line in lines.split("\n"))
    return lines.strip().encode("ascii", "replace")


def _unjoined(line: str) -> str:
    """Return the parts of a line on lines of their own, except for the words of its label."""
    if line.startswith("-----END "):
        return line.strip()
    head, dashes, rest = line.removeprefix("-----").partition("-----")
    return f"-----{head}{dashes}\n" + "\n".join(rest.split()) if dashes else line


def _content(settings: TlsSettings, store: str) -> bytes:
    """Return the bytes of the file of a store. Raises ConfigError."""
    name, path = f"{store}.location", Path(settings[f"{store}.location"])
    try:
        with path.open("rb") as file:
            content = file.read(STORE_BYTES_MAX)
    except (OSError, ValueError) as error:
        raise settings.error(name, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if content[:4] in (_JKS_MAGIC, _JCEKS_MAGIC):
        convert = f"keytool -importkeystore -srckeystore {path.name} -destkeystore {path.stem}.p12 -deststoretype PKCS12"
        raise settings.error(name, f"is a JKS file, which pybroker does not read: convert it by `{convert}`")
    if settings[f"{store}.type"] != "PEM" and not content.startswith(b"\x30"):
        type_key = settings.key(f"{store}.type")
        what = f"a PEM file: set {type_key}=PEM" if b"-----BEGIN " in content else "no PKCS12 file"
        raise settings.error(name, f"is {what}")
    return content


def _pkcs12_keys(settings: TlsSettings, content: bytes) -> KeyStore:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  only for PKCS12

    found = _pkcs12(settings, content, "ssl.keystore")
    if found.key is None or found.cert is None:
        raise settings.error("ssl.keystore.location", "has no key with a certificate")
    password = secrets.token_urlsafe()  # so that the key is nowhere without encryption
    encryption = serialization.BestAvailableEncryption(password.encode())
    pem = found.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    for one in (found.cert, *found.additional_certs):
        pem += one.certificate.public_bytes(serialization.Encoding.PEM)
    return KeyStore(pem, password, "ssl.keystore.location")


def _pkcs12_certificates(settings: TlsSettings, content: bytes) -> str:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  only for PKCS12

    found = _pkcs12(settings, content, "ssl.truststore")
    certificates = [one.certificate for one in (found.cert, *found.additional_certs) if one is not None]
    if not certificates:
        raise settings.error("ssl.truststore.location", "has no certificate")
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates).decode("ascii")


def _pkcs12(settings: TlsSettings, content: bytes, store: str) -> Any:
    """Return the content of a PKCS12 file. Raises ConfigError."""
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415  only for PKCS12
    except ImportError:
        reason = f"needs the package cryptography for a PKCS12 file: {extras.command('security')}, or use PEM"
        raise settings.error(f"{store}.location", reason) from None
    password = settings[f"{store}.password"]
    try:
        return pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except (ValueError, TypeError) as error:
        if password is None:
            raise settings.error(f"{store}.location", f"cannot be opened without {settings.key(f'{store}.password')}") from error
        raise settings.error(
            f"{store}.password", f"does not open {settings[f'{store}.location']}, or the file is damaged"
        ) from error
