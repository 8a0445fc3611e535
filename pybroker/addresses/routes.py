"""The routes of this network namespace that show which clients are near: default gateways, and networks without a gateway.

They are read from `/proc/net/route` and `/proc/net/ipv6_route`, which need no privilege and no other program. A container is
connected to networks and disconnected while it runs, so the result holds only for the moment.

Source: proc(5); fib_trie.c and route.c of Linux, which write the files.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Final, NamedTuple

IPV4_ROUTES: Final = Path("/proc/net/route")
IPV6_ROUTES: Final = Path("/proc/net/ipv6_route")

_UP: Final = 0x1
_GATEWAY: Final = 0x2
_REJECT: Final = 0x200
_LOCAL: Final = 0x8000_0000
_LINK_LOCAL: Final = b"\xfe\x80"
_MULTICAST: Final = 0xFF


class Network(NamedTuple):
    """Addresses that are reached without a gateway. `prefix` is as long as an address, 4 or 16 bytes."""

    prefix: bytes
    mask: int

    def has(self, address: bytes) -> bool:
        """Return whether a packed address is in the network."""
        return len(address) == len(self.prefix) and int.from_bytes(address) & self.mask == int.from_bytes(self.prefix)

    def __str__(self) -> str:
        return f"{text_of(self.prefix)}/{self.mask.bit_count()}"


class Routes(NamedTuple):
    """The gateways, and the networks that are near, as packed addresses."""

    gateways: frozenset[bytes] = frozenset()
    networks: tuple[Network, ...] = ()

    def is_near(self, address: bytes) -> bool:
        """Return whether an address is on one of the networks."""
        return any(network.has(address) for network in self.networks)


NOWHERE: Final = Routes()


def packed(host: str) -> bytes:
    """Return the bytes of a numeric address, without its scope. Raises ValueError."""
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host.partition("%")[0])
    except OSError:
        raise ValueError(f"{host!r} is not an address") from None


def text_of(address: bytes) -> str:
    """Format a packed address for people."""
    return socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address)


def read_routes(*, ipv6: bool) -> Routes:
    """Read the current routes of an address family. Raises OSError where the system does not list them."""
    if ipv6:
        return parse_ipv6(IPV6_ROUTES.read_text("ascii"))
    return parse_ipv4(IPV4_ROUTES.read_text("ascii"))


def parse_ipv4(text: str) -> Routes:
    """Parse routes in the form of `/proc/net/route`: addresses are numbers in the machine's byte order, in hex."""
    gateways, networks = set(), []
    for line in text.splitlines()[1:]:
        columns = line.split()
        if len(columns) < 8:
            continue
        interface, destination, gateway, mask = columns[0], _swapped(columns[1]), _swapped(columns[2]), _swapped(columns[7])
        flags, bits = int(columns[3], 16), int.from_bytes(mask)
        if not flags & _UP or flags & _REJECT:
            continue
        if flags & _GATEWAY:
            if not bits:
                gateways.add(gateway)
        elif bits and interface != "lo":
            networks.append(Network(destination, bits))
    return Routes(frozenset(gateways), tuple(networks))


def parse_ipv6(text: str) -> Routes:
    """Parse routes in the form of `/proc/net/ipv6_route`. Link-local networks are left out: every interface has one."""
    gateways, networks = set(), []
    for line in text.splitlines():
        columns = line.split()
        if len(columns) < 10:
            continue
        destination, length, gateway = bytes.fromhex(columns[0]), int(columns[1], 16), bytes.fromhex(columns[4])
        flags, interface = int(columns[8], 16), columns[9]
        if not flags & _UP or flags & (_REJECT | _LOCAL) or interface == "lo":
            continue
        if flags & _GATEWAY:
            if not length:
                gateways.add(gateway)
        elif length and destination[0] != _MULTICAST and not destination.startswith(_LINK_LOCAL):
            networks.append(Network(destination, (1 << 128) - (1 << 128 - length)))
    return Routes(frozenset(gateways), tuple(networks))


def _swapped(column: str) -> bytes:
    return int(column, 16).to_bytes(4, sys.byteorder)
