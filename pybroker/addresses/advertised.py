"""Gives the clients of a container an address that they can use, where none is configured.

Active only with pybroker.advertised.by.peer, which `pybroker container` sets: the entry command of an image knows where it is.
The address that a client gets is settled once, when its connection is accepted. The routes are read then, since networks come and
go while the container runs; no request pays for it.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from pybroker.addresses.local_peer import is_process_here
from pybroker.addresses.origin import LOCALHOST, ListenerAddresses, Origin, Surroundings, is_loopback, origin_of
from pybroker.addresses.routes import NOWHERE, packed, read_routes
from pybroker.config.listeners import EVERYWHERE
from pybroker.network.limits import host_and_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pybroker.addresses.routes import Routes
    from pybroker.config.broker import BrokerConfig
    from pybroker.network.context import ConnectionContext
    from pybroker.network.limits import BoundListener

logger = logging.getLogger(__name__)

INTERFACES: Final = "sys/class/net"
PODMAN: Final = "run/.containerenv"
UID_MAP: Final = "proc/self/uid_map"
KUBERNETES: Final = "KUBERNETES_SERVICE_HOST"
_ALL_USERS: Final = ["0", "0", "4294967295"]


class FindsProcess(Protocol):
    """Decides whether a process of this machine has the socket that is connected from one port to the other."""

    def __call__(self, *, peer_port: int, local_port: int) -> bool:
        """Return the decision. Raises OSError."""


class Advertised:
    """The addresses that the clients of listeners without a configured address get."""

    def __init__(
        self,
        listeners: Mapping[str, ListenerAddresses],
        surroundings: Surroundings,
        routes: Callable[[bool], Routes] = lambda ipv6: read_routes(ipv6=ipv6),
        is_process_here: FindsProcess = is_process_here,
        fixed: Mapping[str, tuple[str, int]] | None = None,
    ) -> None:
        """Keep the arguments; `routes` reads those of IPv6 or of IPv4.

        `listeners` is by listener name, and so is `fixed`: the addresses of the other listeners, which all their clients get.
        """
        self._fixed = fixed or {}
        self._listeners = listeners
        self._surroundings = surroundings
        self._read_routes = routes
        self._is_process_here = is_process_here
        self._warned: set[str] = set()

    def address_for(self, connection: ConnectionContext) -> tuple[str, int]:
        """Return the host and port for the client of a new connection."""
        local = (connection.local_host, connection.local_port)
        addresses = self._listeners.get(connection.listener_name)
        if addresses is None or not connection.peer_host:  # advertised by the configuration, or closed already
            return local
        if not self._surroundings.has_own_network:
            return addresses.everyone(local)
        routes = NOWHERE if is_loopback(packed(connection.peer_host)) else self._routes(":" in connection.peer_host)
        origin = origin_of(connection.peer_host, connection.local_host, routes, self._surroundings)
        if (
            origin is Origin.OWN
            and self._surroundings.forwards_as_own
            and addresses.differs_inside
            and not self._is_here(connection)
        ):
            origin = Origin.PUBLISHED
        address = addresses.address(origin, local)
        if origin is Origin.ELSEWHERE and addresses.outside is None:
            self._warn_once(
                "elsewhere",
                f"A client at {connection.peer_host} is on none of the container's networks and gets {host_and_port(*address)}."
                " If it cannot reach that, set PYBROKER_ADVERTISED to the host and port by which it connects",
            )
        return address

    def warnings(self, bound: Sequence[BoundListener]) -> Iterator[str]:
        """Yield lines about listeners that no published port reaches."""
        for listener in bound:
            if self._is_only_here(listener):
                everywhere = host_and_port("0.0.0.0", listener.port)  # noqa: S104  for people
                yield (
                    f"{listener.name}: only clients in this container can connect, and a published port does not reach "
                    f"{host_and_port(listener.host, listener.port)}; for others, listen at {everywhere}"
                )

    def _is_only_here(self, listener: BoundListener) -> bool:
        return self._surroundings.has_own_network and is_loopback(packed(listener.host))

    def lines(self, bound: Sequence[BoundListener]) -> Iterator[str]:
        """Yield lines for people that show which clients get which address."""
        for listener in bound:
            addresses = self._listeners.get(listener.name)
            if self._is_only_here(listener):
                continue
            if addresses is not None:
                for line in self._lines(addresses, listener.port):
                    yield f"{listener.name}: {line}"
            elif listener.name in self._fixed:
                host, port = self._fixed[listener.name]
                yield f"{listener.name}: all clients get {host_and_port(host, port or listener.port)}"

    def _lines(self, addresses: ListenerAddresses, port: int) -> Iterator[str]:
        outside = None if addresses.outside is None else host_and_port(addresses.outside[0], addresses.outside[1] or port)
        if not self._surroundings.has_own_network:
            address = "the address that they connected to" if outside is None else outside
            yield f"all clients get {address}, because the network is not this container's alone"
            return
        if self._surroundings.has_neighbours:
            near = ", ".join(str(network) for ipv6 in (False, True) for network in self._routes(ipv6).networks) or "none so far"
            yield f"clients on the container's networks ({near}) get the address that they connected to"
        if outside is None:
            outside = f"{LOCALHOST}:{port}; for another host or port set PYBROKER_ADVERTISED=HOST:PORT"
        yield f"clients that come through a published port get {outside}"

    def _routes(self, ipv6: bool) -> Routes:
        try:
            return self._read_routes(ipv6)
        except FileNotFoundError:  # a system without IPv6
            return NOWHERE
        except OSError as error:
            self._warn_once("routes", f"Cannot read the routes, so no gateway is known: {error}")
            return NOWHERE

    def _is_here(self, connection: ConnectionContext) -> bool:
        try:
            return self._is_process_here(peer_port=connection.peer_port, local_port=connection.local_port)
        except OSError as error:
            self._warn_once(
                "processes", f"Cannot look up the process of a client, so no client is taken for one in this container: {error}"
            )
            return False

    def _warn_once(self, kind: str, line: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            logger.warning("%s", line)


def advertised(config: BrokerConfig) -> Advertised:
    """Return what the configuration and the surroundings of this process determine."""
    listeners = {
        endpoint.listener_name: ListenerAddresses(config.outside_address, endpoint.host in EVERYWHERE)
        for endpoint in config.endpoints
        if endpoint.listener_name in config.unadvertised_listeners
    }
    fixed = {
        endpoint.listener_name: (endpoint.host, endpoint.port)
        for endpoint in config.advertised_endpoints
        if endpoint.listener_name not in config.unadvertised_listeners
    }
    return Advertised(listeners, look_around(os.environ, os.uname().release), fixed=fixed)


def look_around(environment: Mapping[str, str], kernel: str, root: Path = Path("/")) -> Surroundings:
    """Find out where this process runs; `root` is for tests.

    A network interface with a device is the host's: an interface that an engine makes for a container has none. The way out of a
    rootless container is a tunnel, unless the container is on a network with others. Podman leaves a file in its containers.
    """
    interfaces = [interface for interface in (root / INTERFACES).glob("*") if interface.name != "lo"]
    is_of_host = any((interface / "device").exists() for interface in interfaces)
    return Surroundings(
        has_own_network=not is_of_host and not environment.get(KUBERNETES),
        has_neighbours=not interfaces or not all((interface / "tun_flags").exists() for interface in interfaces),
        is_desktop="linuxkit" in kernel,
        forwards_as_own=(root / PODMAN).exists() and _is_rootless(root / UID_MAP),
    )


def _is_rootless(uid_map: Path) -> bool:
    """Return whether users in this container have other ids outside."""
    try:
        return uid_map.read_text("ascii").split() != _ALL_USERS
    except FileNotFoundError:  # a kernel without user namespaces
        return False
