"""The syntax of `pybroker.admin.listener`: http://host:port , http://[ipv6]:port , http://:port .

An empty host is every interface; port 0 is any free port.
"""

from __future__ import annotations

from typing import Final

from pybroker.config.listeners import parse_address
from pybroker.config.setting import ConfigError

KEY: Final = "pybroker.admin.listener"
SCHEME: Final = "http://"
LOCALHOST: Final = "localhost"


def parse_admin(text: str, *, has_token: bool) -> tuple[str, int] | None:
    """Return the host and port of the listener; None for an empty text. Raises ConfigError.

    Without a token, it must be at an address that only the machine itself reaches.
    """
    text = text.strip()
    if not text:
        return None
    if not text.startswith(SCHEME):
        raise ConfigError(KEY, text, "is not http://HOST:PORT")
    host, port = parse_address(KEY, text.removesuffix("/"), SCHEME)
    if not has_token and not is_loopback(host):
        raise ConfigError(KEY, text, "is reached from other machines, so it needs pybroker.admin.token; or use 127.0.0.1")
    return host, port


def is_loopback(host: str) -> bool:
    """Return whether only the machine itself reaches a host. An empty one is every interface."""
    import ipaddress  # noqa: PLC0415  only a broker with this listener needs it, and it costs start-up time

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == LOCALHOST
