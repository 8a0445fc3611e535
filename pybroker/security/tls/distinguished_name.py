"""The distinguished name of a certificate's subject, as Java's X500Principal.getName() prints it: RFC 2253.

    CN=alice,OU=Sales+L=Paris,O=Example\\, Inc.,C=FR

The last part of the certificate's name comes first. A type without a keyword of RFC 2253 is printed as its number, and a
value of such a type, or one that is no text, as its bytes in hexadecimal: `1.2.840.113549.1.9.1=#1605612e...`. Python's
`getpeercert` does not have these bytes, so the certificate itself is read. OpenSSL has verified it before.

Source: sun.security.x509.X500Name.generateRFC2253DN, AVA.toRFC2253String.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _UNIVERSAL, _BMP = 12, 19, 20, 22, 27, 28, 30
_TEXTS: Final = frozenset((_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _UNIVERSAL, _BMP))
"""The types of values that Java prints as texts. It takes the bytes of each of them for UTF-8."""
_ESCAPED: Final = str.maketrans({**{character: f"\\{character}" for character in ',=+<>#;"\\'}, "\0": "\\00"})
IDENTIFIER_BYTES_MAX: Final = 128
"""The bound on a type's number, of which those in use have some ten. The work grows with the square of it."""
_VERSION_TAG: Final = 0xA0


def subject_of(certificate: bytes) -> str:
    """Return the name of the subject of a certificate in DER. Raises ValueError."""
    try:
        return _printed(_subject(certificate))
    except (IndexError, StopIteration) as error:
        raise ValueError("the certificate is cut short") from error


def _subject(certificate: bytes) -> bytes:
    _, whole, _ = next(_elements(certificate))
    _, signed, _ = next(_elements(whole))
    fields = [(tag, content) for tag, content, _ in _elements(signed)]
    if fields[0][0] == _VERSION_TAG:
        del fields[0]
    return fields[4][1]  # after serial number, algorithm, issuer and validity


def _printed(name: bytes) -> str:
    parts = []
    for _, attributes, _ in _elements(name):
        pairs = []
        for _, attribute, _ in _elements(attributes):
            (_, identifier, _), (tag, value, raw) = _elements(attribute)
            pairs.append(_pair(_dotted(identifier), tag, value, raw))
        parts.append("+".join(pairs))
    return ",".join(reversed(parts))


def _pair(identifier: str, tag: int, value: bytes, raw: bytes) -> str:
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or tag not in _TEXTS:
        return f"{identifier if keyword is None else keyword}=#{raw.hex()}"
    text = value.decode("utf-8", "replace")
    core = text.strip(" \r")
    lead = len(text) - len(text.lstrip(" \r"))
    before, after = text[:lead], text[lead + len(core) :]
    return f"{keyword}={_blanks(before)}{core.translate(_ESCAPED)}{_blanks(after)}"


def _blanks(text: str) -> str:
    return "".join(f"\\{blank}" for blank in text)


def _dotted(identifier: bytes) -> str:
    if len(identifier) > IDENTIFIER_BYTES_MAX:
        raise ValueError("the identifier of a type in the certificate's name is too long")
    numbers, number = [], 0
    for byte in identifier:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the tag, the content and the whole of each element of DER."""
    position = 0
    while position < len(data):
        start, tag, size = position, data[position], data[position + 1]
        position += 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[position : position + count], "big")
            position += count
        end = position + size
        if end > len(data):
            raise ValueError("an element of the certificate is cut short")
        yield tag, data[position:end], data[start:end]
        position = end
