"""Decides whether a host's name means this container.

A compose file calls a container by its service's name, which is written nowhere inside the container: the network's name service
has it. An address is this container's when a socket can be bound to it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from pybroker.config.listeners import EVERYWHERE
from pybroker.config.setting import ConfigError

if TYPE_CHECKING:
    from pybroker.config.listeners import Endpoint


def check(endpoints: Iterable[Endpoint], properties: Mapping[str, tuple[str, str]], is_own_host: Callable[[str], bool]) -> None:
    """Refuse a listener at a host that is not this container's. Raises ConfigError."""
    for endpoint in endpoints:
        if endpoint.host in EVERYWHERE or is_own_host(endpoint.host):
            continue
        origin, text = properties["listeners"]
        reason = (
            f"{endpoint.host} is not an address of this container: write {endpoint.listener_name}://:{endpoint.port} here; "
            f"KAFKA_ADVERTISED_LISTENERS may name {endpoint.host} (from {origin})"
        )
        raise ConfigError("listeners", text.strip(), reason)


def is_own_host(host: str) -> bool:
    """Return whether the host has an address of this container. A name that does not resolve has none."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    return any(_is_bindable(family, address) for family, _, _, _, address in found)


def _is_bindable(family: int, address: tuple[object, ...]) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True
