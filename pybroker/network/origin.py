"""Where the client of a container comes from, as far as its address tells, and the address that it is told.

    peer                                    origin       told
    loopback, or our own address            OWN          localhost; our own address where only that is listened at
        and no process in the container     PUBLISHED    localhost
    a default gateway of the container      PUBLISHED    localhost
    on one of the container's networks      NEAR         the address that it connected to
    a known address of a virtual machine    PUBLISHED    localhost
    any other                               ELSEWHERE    the address that it connected to

With an address for clients outside, that takes the place of localhost and of what those elsewhere are told. Which engine makes
which of these, and what was rejected, is in docs/design/addresses.md.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.network.routes import packed

if TYPE_CHECKING:
    from pybroker.network.routes import Routes

LOCALHOST: Final = "localhost"

FORWARDERS: Final = frozenset(map(packed, ("10.0.2.2", "192.168.65.1", "192.168.127.1")))
"""What forwards a published port into the machine that the engine runs on, and is far for a container in it: the host of
slirp4netns and of VirtualBox and QEMU, that of Docker Desktop, and that of Podman's machine."""


class Origin(Enum):
    """Where a client is."""

    OWN = "own"
    PUBLISHED = "published port"
    NEAR = "near"
    ELSEWHERE = "elsewhere"


class Surroundings(NamedTuple):
    """What does not change while a container runs.

    Attributes:
        has_own_network: whether the network is the container's alone, with an engine that publishes ports between it and all
            else. Not so on the host's network, and in Kubernetes.
        has_neighbours: whether other containers can be on its networks. Not so where the only way out is a tunnel to the host,
            which may bear the addresses of the host's network.
        is_desktop: whether all that is not near has come through a forwarder, whatever its address.
        forwards_as_own: whether clients of a published port, too, may come from the container's own address.
    """

    has_own_network: bool = True
    has_neighbours: bool = True
    is_desktop: bool = False
    forwards_as_own: bool = False


def origin_of(peer: str, local: str, routes: Routes, surroundings: Surroundings) -> Origin:
    """Where the client at `peer` is, who connected to `local`. Both are numeric addresses; raises ValueError for others."""
    address = packed(peer)
    if peer == local or is_loopback(address):
        return Origin.OWN
    if address in routes.gateways:
        return Origin.PUBLISHED
    if surroundings.has_neighbours and routes.is_near(address):
        return Origin.NEAR
    return Origin.PUBLISHED if surroundings.is_desktop or address in FORWARDERS else Origin.ELSEWHERE


class Telling(NamedTuple):
    """What the clients of one listener are told.

    Attributes:
        outside: host and port for clients outside, port 0 for the listener's; None for localhost.
        is_everywhere: whether the listener takes connections at every address.
    """

    outside: tuple[str, int] | None = None
    is_everywhere: bool = True

    @property
    def differs_inside(self) -> bool:
        """Whether clients in the container are told another address than those that come through a published port."""
        return self.outside is not None or not self.is_everywhere

    def address(self, origin: Origin, local: tuple[str, int]) -> tuple[str, int]:
        """The host and port for a client that has connected to `local`."""
        if origin is Origin.NEAR:
            return local
        outside = None if self.outside is None else (self.outside[0], self.outside[1] or local[1])
        if origin is Origin.ELSEWHERE:
            return outside or local
        if origin is Origin.PUBLISHED:
            return outside or (LOCALHOST, local[1])
        return (LOCALHOST, local[1]) if self.is_everywhere or is_loopback(packed(local[0])) else local

    def everyone(self, local: tuple[str, int]) -> tuple[str, int]:
        """The host and port where clients cannot be told apart."""
        return local if self.outside is None else (self.outside[0], self.outside[1] or local[1])


def is_loopback(address: bytes) -> bool:
    """Whether a packed address is of the loopback interface."""
    return address[0] == 127 if len(address) == 4 else address == b"\0" * 15 + b"\1"
