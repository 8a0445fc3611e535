"""The names of cipher suites: IANA's, which Java and Kafka's properties use, and OpenSSL's.

OpenSSL's names of the suites before TLS 1.3 follow from IANA's by rule. Its own names are accepted too. The suites of TLS 1.3
have the same names in both, and Python cannot choose among them.
"""

from __future__ import annotations

import re
from typing import Final

TLS_1_3: Final = frozenset(("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"))
"""The suites of TLS 1.3 that OpenSSL enables. They are all on or all off."""

_SUITE: Final = re.compile(r"(?:TLS|SSL)_(?P<exchange>[A-Z0-9_]+?)_WITH_(?P<cipher>[A-Z0-9_]+)")


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a suite before TLS 1.3; a name that is none of IANA's is returned as it is."""
    match = _SUITE.fullmatch(name)
    if match is None:
        return name
    cipher = re.sub(r"^(AES|ARIA|CAMELLIA)_(128|256)", r"\1\2", match["cipher"])
    if "CHACHA20_POLY1305" in cipher:
        cipher = cipher.removesuffix("_SHA256")
    elif cipher.startswith(("AES", "CAMELLIA")):
        cipher = cipher.replace("_CBC", "")
    exchange = "" if match["exchange"] == "RSA" else match["exchange"] + "_"
    return (exchange + cipher).replace("_", "-")
