"""The address of an etcd cluster in `metadata.store`: `etcd:http://HOST:PORT[,http://HOST:PORT...][/NAMESPACE]`."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

from pybroker.metadata.store.base import StoreError

PORT: Final = 2379
NAMESPACE: Final = "pybroker"


class Endpoint(NamedTuple):
    """A member of the cluster."""

    host: str
    port: int
    is_secure: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_secure else 'http'}://{host}:{self.port}"


class EtcdAddress(NamedTuple):
    """The members, and what all keys of this cluster of brokers begin with."""

    endpoints: tuple[Endpoint, ...]
    namespace: str


def parse(urls: str) -> EtcdAddress:
    """Return the address in what follows `etcd:`. Raises StoreError that names the part which is wrong."""
    endpoints, namespace = [], ""
    for text in urls.split(","):
        url = urlsplit(text.strip())
        try:
            host, port = url.hostname, url.port
        except ValueError:
            host, port = None, None
        if url.username is not None:  # not shown, because a password is in it
            raise StoreError(
                "metadata.store has a user in an address of etcd: set metadata.store.user, and metadata.store.password or "
                "metadata.store.password.file"
            )
        if url.scheme not in {"http", "https"} or not host or url.query or url.fragment:
            raise StoreError(f"{text.strip()!r} in metadata.store is not the URL of a member of etcd, such as http://etcd-1:2379")
        if path := url.path.strip("/"):
            if namespace:
                raise StoreError(f"metadata.store names two namespaces of etcd, {namespace!r} and {path!r}")
            namespace = path
        endpoints.append(Endpoint(host, PORT if port is None else port, url.scheme == "https"))
    return EtcdAddress(tuple(endpoints), namespace or NAMESPACE)
