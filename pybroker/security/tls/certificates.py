"""Makes an authority, keys and certificates, for development and tests; by the package `cryptography`.

Keys are of the curve P-256, which every client of the last ten years knows, and whose handshake costs the broker least.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

if TYPE_CHECKING:
    from collections.abc import Sequence

DAYS: Final = 825
"""How long a certificate holds: longer ones are refused by some systems."""
_LEEWAY: Final = dt.timedelta(days=1)


class Pair(NamedTuple):
    """A private key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def key_pem(self, password: str | None = None) -> bytes:
        """Return the key in PEM, as PKCS#8."""
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)

    def certificate_pem(self) -> bytes:
        """Return the certificate in PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def authority(name: str, *, days: int = 10 * 365) -> Pair:
    """Return a new authority, whose certificate it has signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name.from_rfc4514_string(f"CN={name}")
    usage = _usage(is_authority=True)
    builder = _builder(subject, subject, key, days).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return Pair(key, builder.add_extension(usage, critical=True).sign(key, hashes.SHA256()))


def pair_from(key_pem: bytes, certificate_pem: bytes) -> Pair:
    """Return the pair of two PEM texts. Raises ValueError."""
    key = serialization.load_pem_private_key(key_pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is of another kind")  # noqa: TRY004  (a file's content, not an argument's type)
    return Pair(key, x509.load_pem_x509_certificate(certificate_pem))


def issued(by: Pair, subject: str, hosts: Sequence[str] = (), *, days: int = DAYS) -> Pair:
    """Return a key and a certificate for it. `subject` is in the form of RFC 4514, `hosts` are names and addresses.

    With negative `days` the certificate has expired.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(x509.Name.from_rfc4514_string(subject), by.certificate.subject, key, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(is_authority=False), critical=True)
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = builder.add_extension(both, critical=False)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key())
    return Pair(key, builder.add_extension(signer, critical=False).sign(by.key, hashes.SHA256()))


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    end = now + dt.timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, end) - _LEEWAY)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
