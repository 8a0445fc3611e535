"""Decides whether a host's name means this container.

A compose file calls a container by its service's name, which is written nowhere inside the container: the network's name service
has it. An address is this container's when a socket can be bound to it.
"""

from __future__ import annotations

import socket


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
