"""Finds where the client of a container connects from, as far as its address shows, and the address that it gets to connect to.

    peer                                    origin       address that the client gets
    loopback, or the container's own        OWN          localhost; the container's own where only that is listened at
        and no process in the container     PUBLISHED    localhost
    a default gateway of the container      PUBLISHED    localhost
    on one of the container's networks      NEAR         the address that it connected to
    a known address of a virtual machine    PUBLISHED    localhost
    any other                               ELSEWHERE    the address that it connected to

If an address for clients outside is configured, it replaces localhost for PUBLISHED, and the connected address for ELSEWHERE.
docs/design/addresses.md lists which engine causes which of these cases, and the rejected alternatives.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.addresses.routes import packed

if TYPE_CHECKING:
    from pybroker.addresses.routes import Routes

LOCALHOST: Final = "localhost"

FORWARDERS: Final = frozenset(map(packed, ("10.0.2.2", "192.168.65.1", "192.168.127.1")))
"""The addresses that forward a published port into the machine on which the engine runs, and are far for a container in it: the
host of slirp4netns and of VirtualBox and QEMU, that of Docker Desktop, and that of Podman's machine.
"""


class Origin(Enum):
    """The place of a client, as seen from the container."""

    OWN = "own"
    PUBLISHED = "published port"
    NEAR = "near"
    ELSEWHERE = "elsewhere"


class Surroundings(NamedTuple):
    """The properties of a container's surroundings that do not change while it runs.

    Attributes:
        has_own_network: whether the network is the container's alone, with an engine that publishes ports between it and
        everything else. False on the host's network, and in Kubernetes.
        has_neighbours: whether other containers can be on its networks. False where the only way out is a tunnel to the host,
        which may bear the addresses of the host's network.
        is_desktop: whether every client that is not near has come through a forwarder, whatever its address.
        forwards_as_own: whether clients of a published port, too, may come from the container's own address.
    """

    has_own_network: bool = True
    has_neighbours: bool = True
    is_desktop: bool = False
    forwards_as_own: bool = False


def origin_of(peer: str, local: str, routes: Routes, surroundings: Surroundings) -> Origin:
    """Return where the client at `peer` that connected to `local` is. Raises ValueError for an address that is not numeric."""
    address = packed(peer)
    if peer == local or is_loopback(address):
        return Origin.OWN
    if address in routes.gateways:
        return Origin.PUBLISHED
    if surroundings.has_neighbours and routes.is_near(address):
        return Origin.NEAR
    return Origin.PUBLISHED if surroundings.is_desktop or address in FORWARDERS else Origin.ELSEWHERE


class ListenerAddresses(NamedTuple):
    """The addresses that the clients of one listener get.

    Attributes:
        outside: host and port for clients outside, port 0 for the listener's; None for localhost.
        is_everywhere: whether the listener takes connections at every address.
    """

    outside: tuple[str, int] | None = None
    is_everywhere: bool = True

    @property
    def differs_inside(self) -> bool:
        """Whether clients in the container get another address than those that come through a published port."""
        return self.outside is not None or not self.is_everywhere

    def address(self, origin: Origin, local: tuple[str, int]) -> tuple[str, int]:
        """Return the host and port for a client that has connected to `local`."""
        if origin is Origin.NEAR:
            return local
        outside = None if self.outside is None else (self.outside[0], self.outside[1] or local[1])
        if origin is Origin.ELSEWHERE:
            return outside or local
        if origin is Origin.PUBLISHED:
            return outside or (LOCALHOST, local[1])
        return (LOCALHOST, local[1]) if self.is_everywhere or is_loopback(packed(local[0])) else local

    def everyone(self, local: tuple[str, int]) -> tuple[str, int]:
        """Return the host and port for all clients, where the broker cannot distinguish them."""
        return local if self.outside is None else (self.outside[0], self.outside[1] or local[1])


def is_loopback(address: bytes) -> bool:
    """Return whether a packed address belongs to the loopback interface."""
    return address[0] == 127 if len(address) == 4 else address == b"\0" * 15 + b"\1"
