"""The advice about refusals and failures of etcd, by words of their texts: which setting to correct."""

from __future__ import annotations

from typing import Final

_SECRET: Final = "metadata.store.password or metadata.store.password.file"  # noqa: S105  # names of settings
_CERTIFICATE: Final = "metadata.store.ssl.certificate.file and metadata.store.ssl.key.file"
_REFUSED: Final = f"etcd refuses the certificate of this broker, or wants one: correct {_CERTIFICATE}"
_ADVICE: Final = {
    "user name is empty": f"This etcd wants a user: set metadata.store.user, and {_SECRET}",
    "invalid user ID or password": f"Correct metadata.store.user, or {_SECRET}",
    "permission denied": "Give the user in metadata.store.user a role that may read and write the keys of this cluster",
    "CommonName of client": f"With a user, the certificate in {_CERTIFICATE} must have no common name",
    "CERTIFICATE_VERIFY_FAILED": "Set metadata.store.ssl.ca.file to the authority of etcd's certificate, or renew this one",
    "bad certificate": _REFUSED,
    "certificate required": _REFUSED,
    "certificate expired": _REFUSED,
    "unknown ca": _REFUSED,
    "the connection was closed (http://": "If this etcd uses TLS, write https:// in metadata.store",
}


def advice_for(text: str) -> str:
    """Return what to do about a refusal or a failure with this text; nothing where only etcd's operator knows."""
    return next((advice for words, advice in _ADVICE.items() if words in text), "")
