"""The facts that the broker registers with the cluster: its id, its rack, and the addresses that clients get."""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

from pybroker.config.listeners import EVERYWHERE
from pybroker.config.setting import ConfigError
from pybroker.metadata.members import BrokerRegistration, Endpoint
from pybroker.network.limits import BoundListener, host_and_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pybroker.addresses.advertised import Advertised
    from pybroker.config.broker import BrokerConfig
    from pybroker.model import BrokerId

logger = logging.getLogger(__name__)


def advertised_of(config: BrokerConfig) -> Advertised | None:
    """Return what chooses each client's address by the network that it connects from; None if `pybroker.advertised.by.peer` is
    off.
    """
    if not config.pybroker_advertised_by_peer:
        return None
    from pybroker.addresses.advertised import advertised  # noqa: PLC0415  only in containers

    return advertised(config)


def inter_broker_listener(config: BrokerConfig) -> str:
    """Return the name of the listener by which other brokers reach this one: by default the first."""
    named = config.inter_broker
    return config.endpoints[0].listener_name if named is None else named[1].upper()


def registration_in_cluster(config: BrokerConfig, bound: Sequence[BoundListener]) -> BrokerRegistration:
    """Return the registration of a broker of a cluster, in which a listener at a certain host has that address, and one with no
    host has this machine's name, as Kafka's listeners do.

    Raises ConfigError if other brokers could not know where this one listens: at 0.0.0.0, which is no address to connect to.
    """
    alone = registration(config, bound)
    hosts = {one.listener_name: one.host or socket.gethostname() for one in config.endpoints}
    own = {one.name: Endpoint(hosts[one.name], one.port) for one in bound if hosts[one.name] not in EVERYWHERE}
    name = inter_broker_listener(config)
    if name not in (endpoints := {**own, **alone.endpoints}):
        raise ConfigError(
            *_address_setting(config),
            f"the listener {name} is at every interface, so other brokers do not know its address: set advertised.listeners to "
            f"one by which they reach this broker, such as {name}://HOST:PORT, or name a host in listeners (or by --host)",
        )
    return replace(alone, endpoints=endpoints)


def check_addresses(config: BrokerConfig) -> None:
    """Raise ConfigError if other brokers could not know where a broker with these settings listens."""
    registration_in_cluster(
        config, [BoundListener(name=one.listener_name, host=one.host, port=one.port) for one in config.endpoints]
    )


def refuse_address_of_another(config: BrokerConfig, own: BrokerRegistration, live: Mapping[BrokerId, BrokerRegistration]) -> None:
    """Raise ConfigError if another live broker has an address of this one: clients and brokers would reach only one of them."""
    for name, endpoint in own.endpoints.items():
        for other in live.values():
            if other.broker_id != own.broker_id and endpoint in other.endpoints.values():
                address = host_and_port(*endpoint)
                raise ConfigError(
                    *_address_setting(config),
                    f"broker {other.broker_id} is reached at {address}, so {name} needs another address",
                )


def registration(config: BrokerConfig, bound: Iterable[BoundListener]) -> BrokerRegistration:
    """Return the registration of a broker that listens at `bound`.

    A listener without an advertised address is left out: a client gets the address that it connected to.
    """
    endpoints: dict[str, Endpoint] = {}
    if config.advertised_listeners is not None:
        ports = {listener.name: listener.port for listener in bound}
        for endpoint in config.advertised_endpoints:
            port = endpoint.port or ports.get(endpoint.listener_name, 0)
            if endpoint.host and port:
                endpoints[endpoint.listener_name] = Endpoint(endpoint.host, port)
    return BrokerRegistration(broker_id=config.node_id, endpoints=endpoints, rack=config.broker_rack)


async def warn_of_unresolved(config: BrokerConfig, registered: BrokerRegistration) -> None:
    """Log a warning if this machine itself cannot resolve the host by which other brokers are to reach this one.

    It is no refusal: others may resolve a name that this machine does not know, and after a power failure the name server may
    start later than the broker. Kafka does not look at all.
    """
    name = inter_broker_listener(config)
    host, port = registered.endpoints[name]
    plain = host.encode() if host.isascii() else host  # a text would be encoded by a codec that takes 20 ms to import
    try:
        await asyncio.get_running_loop().getaddrinfo(plain, port)
    except (socket.gaierror, UnicodeError) as error:
        is_advertised = host in (config.advertised_listeners or "")
        logger.warning(
            "%s=%s: this machine cannot resolve %s (%s), where other brokers will reach this one at its listener %s. Those that "
            "cannot either copy nothing from here, as their logs show: set advertised.listeners to an address that all resolve",
            "advertised.listeners" if is_advertised else "listeners",
            config.advertised_listeners if is_advertised else config.listeners,
            host,
            error,
            name,
        )


def _address_setting(config: BrokerConfig) -> tuple[str, str]:
    """Return the property that has the addresses by which others reach this broker, and its value."""
    if config.advertised_listeners is not None:
        return "advertised.listeners", config.advertised_listeners
    return "listeners", config.listeners
