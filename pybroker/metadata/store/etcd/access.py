"""How a broker is let into etcd: the certificates of a connection, and the user of its requests.

etcd gives a token for a user and a password, which goes with each request. A member forgets tokens after some time and at its
restart, so a request that is refused for its token is sent again with a new one. The common name of a certificate is no user for
etcd's gateway.

Source: etcd's api_grpc_gateway.md (Authentication) and rpctypes/error.go.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.metadata.store.base import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.config.broker import BrokerConfig
    from pybroker.metadata.store.etcd.address import Endpoint

UNAUTHENTICATED: Final = 16
NOT_ENABLED: Final = "authentication is not enabled"
STALE: Final = ("invalid auth token", "revision of auth store is old", "user name is empty")
"""The texts with which etcd refuses a token that it does not know, or not any more, or a request without a token."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Access:
    """A user with its password, empty for none, and paths of PEM files, None for the system's authorities or no certificate."""

    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None

    def context(self) -> ssl.SSLContext:
        """Return what verifies a member and shows it this broker's certificate. Raises StoreError."""
        files = [one for one in (self.ca_file, self.certificate_file, self.key_file) if one is not None]
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file is not None:
                context.load_cert_chain(self.certificate_file, self.key_file, password=_refuse_password)
        except OSError as error:  # among them ssl.SSLError, which names no file
            raise StoreError(f"the certificates for etcd ({', '.join(files)}) cannot be used: {error}") from error
        return context


def is_stale(code: int, text: str) -> bool:
    """Return whether etcd refused a request for its token, by gRPC's code and the text."""
    return code == UNAUTHENTICATED or any(one in text for one in STALE)


def access_of(config: BrokerConfig, endpoints: Sequence[Endpoint]) -> Access:
    """Return the access that the settings have. Raises StoreError for settings that cannot work."""
    access = Access(
        user=config.metadata_store_user or "",
        password=_password(config),
        ca_file=config.metadata_store_ssl_ca_file,
        certificate_file=config.metadata_store_ssl_certificate_file,
        key_file=config.metadata_store_ssl_key_file,
    )
    if (access.ca_file or access.certificate_file) and not all(one.is_secure for one in endpoints):
        raise StoreError("metadata.store has an http:// address, but metadata.store.ssl.* are set: write https://")
    if access.key_file and not access.certificate_file:
        raise StoreError("metadata.store.ssl.key.file is set without metadata.store.ssl.certificate.file")
    if bool(access.user) is not bool(access.password):
        raise StoreError(
            "metadata.store.user is set without a password: set metadata.store.password or metadata.store.password.file, too"
            if access.user
            else "metadata.store.password or metadata.store.password.file is set without metadata.store.user: set that, too"
        )
    return access


def _password(config: BrokerConfig) -> str:
    path = config.metadata_store_password_file
    if path is None:
        return config.metadata_store_password or ""
    if config.metadata_store_password is not None:
        raise StoreError("metadata.store.password and metadata.store.password.file are both set: use only one of them")
    try:
        return Path(path).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise StoreError(f"metadata.store.password.file={path} cannot be read: {reason}") from error


def _refuse_password() -> str:
    """Refuse a key with a password, for which OpenSSL would otherwise ask at the terminal."""
    raise OSError("the key has a password: store it without one, readable for the broker only")
