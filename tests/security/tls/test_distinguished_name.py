"""The name in a certificate is printed as Java prints it."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from pybroker.security.tls.certificates import authority, issued
from pybroker.security.tls.distinguished_name import subject_of

A = x509.NameAttribute


def certificate_of(*parts: x509.RelativeDistinguishedName) -> bytes:
    by = authority("CA")
    made = issued(by, "CN=any").certificate
    builder = x509.CertificateBuilder(
        issuer_name=made.issuer,
        subject_name=x509.Name(parts),
        public_key=made.public_key(),  # that of a curve
        serial_number=1 << 140,
        not_valid_before=made.not_valid_before_utc,
        not_valid_after=made.not_valid_after_utc,
    )
    return builder.sign(by.key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ([[A(NameOID.COUNTRY_NAME, "FR")], [A(NameOID.COMMON_NAME, "alice")]], "CN=alice,C=FR"),
        ([[A(NameOID.COMMON_NAME, "a"), A(NameOID.ORGANIZATIONAL_UNIT_NAME, "b")]], "CN=a+OU=b"),
        ([[A(NameOID.ORGANIZATION_NAME, 'a,b+c"d\\e<f>g;h=i#j')]], 'O=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h\\=i\\#j'),
        ([[A(NameOID.COMMON_NAME, "  two  ")]], "CN=\\ \\ two\\ \\ "),
        ([[A(NameOID.COMMON_NAME, "é中")]], "CN=é中"),
        ([[A(NameOID.EMAIL_ADDRESS, "a@b.c")]], "1.2.840.113549.1.9.1=#16056140622e63"),
        ([[A(NameOID.SERIAL_NUMBER, "7")]], "2.5.4.5=#130137"),
        ([[A(NameOID.DOMAIN_COMPONENT, "org")], [A(NameOID.USER_ID, "u")]], "UID=u,DC=org"),
        ([[A(NameOID.LOCALITY_NAME, "x")], [A(NameOID.STATE_OR_PROVINCE_NAME, "y")]], "ST=y,L=x"),
        ([[A(NameOID.STREET_ADDRESS, "1")], [A(NameOID.TITLE, "t")]], "2.5.4.12=#0c0174,STREET=1"),
        ([[A(NameOID.COMMON_NAME, "p", _type=_ASN1Type.PrintableString)]], "CN=p"),
        ([], ""),
    ],
)
def test_a_name_is_that_of_java(parts: list[list[x509.NameAttribute[str]]], name: str) -> None:
    assert subject_of(certificate_of(*map(x509.RelativeDistinguishedName, parts))) == name


def test_a_certificate_that_is_cut_short_has_no_name() -> None:
    whole = certificate_of(x509.RelativeDistinguishedName([A(NameOID.COMMON_NAME, "alice")]))
    for size in range(len(whole)):
        with pytest.raises(ValueError, match="cut short"):
            subject_of(whole[:size])
