"""The syntax of `metrics.listener` and `pybroker.admin.listener`: HOST:PORT behind http:// or, with TLS, https://.

    http://host:port   https://[ipv6]:port   https://:port   and for the metrics host:port, too

An empty host is every interface; port 0 is any free port. The TLS is that of `listener.name.metrics.ssl.*` and
`listener.name.admin.ssl.*`, else of `ssl.*`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pybroker.config.listeners import parse_address
from pybroker.config.setting import ConfigError

ADMIN: Final = "pybroker.admin.listener"
METRICS: Final = "metrics.listener"
ADMIN_NAME: Final = "admin"
METRICS_NAME: Final = "metrics"
SCHEME: Final = "http://"
SECURE_SCHEME: Final = "https://"
LOCALHOST: Final = "localhost"


class HttpAddress(NamedTuple):
    """Where a listener is, and whether it has TLS."""

    host: str
    port: int
    is_tls: bool = False

    @property
    def scheme(self) -> str:
        """How the URL of the listener begins."""
        return SECURE_SCHEME if self.is_tls else SCHEME


def parse_metrics(text: str) -> HttpAddress | None:
    """Return where the metrics are; None for an empty text. Raises ConfigError."""
    text = text.strip()
    if not text:
        return None
    return _parsed(METRICS, text) if "://" in text else HttpAddress(*parse_address(METRICS, text))


def parse_admin(text: str, *, has_token: bool) -> HttpAddress | None:
    """Return where the API is; None for an empty text. Raises ConfigError.

    Without a token, it must be at an address that only the machine itself reaches.
    """
    text = text.strip()
    if not text:
        return None
    address = _parsed(ADMIN, text)
    if not has_token and not is_loopback(address.host):
        raise ConfigError(ADMIN, text, "is reached from other machines, so it needs pybroker.admin.token; or use 127.0.0.1")
    return address


def _parsed(key: str, text: str) -> HttpAddress:
    for scheme in (SCHEME, SECURE_SCHEME):
        if text.startswith(scheme):
            return HttpAddress(*parse_address(key, text.removesuffix("/"), scheme), scheme == SECURE_SCHEME)
    raise ConfigError(key, text, "is not http://HOST:PORT or https://HOST:PORT")


def is_loopback(host: str) -> bool:
    """Return whether only the machine itself reaches a host. An empty one is every interface."""
    import ipaddress  # noqa: PLC0415  only a broker with this listener needs it, and it costs start-up time

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == LOCALHOST
