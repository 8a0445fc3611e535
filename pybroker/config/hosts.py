"""Looks up the addresses of hosts that settings name. It is apart from the other settings because it uses the network.

Source: ConnectionQuotas of Kafka.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from typing import TYPE_CHECKING

from pybroker.config.setting import ConfigError

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig


def connection_limits(config: BrokerConfig) -> dict[str, int]:
    """Return the limits of max.connections.per.ip.overrides by address. For a name, that is the address that Java takes.

    The call blocks while names are looked up. Raises ConfigError.
    """
    text = config.max_connections_per_ip_overrides
    return {_address_of(host, text): count for host, count in config.connection_limits.items()}


def _address_of(host: str, text: str) -> str:
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host))
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConfigError("max.connections.per.ip.overrides", text, f"the host {host!r} has no address: {error}") from error
    return str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])
