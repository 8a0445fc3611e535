"""Stores of keys and certificates for tests, made again for each: an authority, and what it has signed."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from pybroker.security.tls.certificates import Pair, authority, issued

HOSTS: Final = ("localhost", "127.0.0.1")
SUBJECT: Final = r"CN=alice,OU=Sales,O=Example\, Inc.,C=FR"
"""The name of the client, as Java and the broker print it."""


class Stores:
    """The files of an authority, of a broker and of a client in a folder, in PEM. `broker` and `client` have key and chain."""

    def __init__(self, folder: Path, *, broker_hosts: tuple[str, ...] = HOSTS, days: int = 10) -> None:
        self.folder = folder
        self.authority = _authority()
        self.ca = self.write("ca.pem", self.authority.certificate_pem())
        self.broker = self.pem("broker", issued(self.authority, "CN=broker", broker_hosts, days=days))
        self.client_pair = issued(self.authority, SUBJECT)
        self.client = self.pem("client", self.client_pair)
        self.client_certificate = self.write("client.crt", self.client_pair.certificate_pem())
        self.client_key = self.write("client.key", self.client_pair.key_pem())

    @staticmethod
    def foreign() -> Pair:
        """Return an authority that has signed none of the certificates."""
        return authority("A foreign authority")

    def write(self, name: str, content: bytes) -> str:
        """Return the path of a file with this content."""
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(0o600)
        return str(path)

    def pem(self, name: str, pair: Pair, password: str | None = None) -> str:
        """Return the path of a file with a key and its certificate."""
        return self.write(f"{name}.pem", pair.key_pem(password) + pair.certificate_pem())

    def of_broker(self, **more: str) -> dict[str, str]:
        """Return the properties of a broker that listens with TLS. Underscores in the names of `more` are dots."""
        return {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.broker,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
            **{name.replace("_", "."): value for name, value in more.items()},
        }


@lru_cache(1)
def _authority() -> Pair:
    return authority("An authority for tests")
