"""The syntax of `listeners` and of the properties that belong to it.

    listeners                       NAME://host:port , NAME://[ipv6]:port , NAME://:port
    listener.security.protocol.map  NAME:PROTOCOL , NAME:PROTOCOL

Names are compared in upper case, as Kafka does. An empty host is every interface; port 0 is any free port.

Source: CoreUtils.listenerListToEndPoints, SocketServerConfigs, KafkaConfig.validateValues.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from pybroker.config.server_settings import SECURITY_PROTOCOLS
from pybroker.config.setting import ConfigError

PORT_MAX: Final = 65535

_LISTENER: Final = re.compile(r"(?P<name>[A-Za-z0-9_-]+)://(?P<address>.*)")
_ADDRESS: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?)\]|(?P<host>[^\[\]/:,\s]*)):(?P<port>[0-9]+)", re.ASCII
)
_OUTSIDE: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?))(?::(?P<port>[0-9]{1,9}))?", re.ASCII
)
_UNSPECIFIED: Final = ("0.0.0.0", "::")  # noqa: S104  # compared, never bound
EVERYWHERE: Final = frozenset({"", *_UNSPECIFIED})
"""The hosts of a listener at every address."""


def has_tls(security_protocol: str) -> bool:
    """Return whether connections at a listener of this protocol have TLS."""
    return security_protocol.endswith("SSL")


def has_logins(security_protocol: str) -> bool:
    """Return whether clients log in by SASL at a listener of this protocol."""
    return security_protocol.startswith("SASL_")


@dataclass(slots=True, frozen=True, kw_only=True)
class Endpoint:
    """A listener, or its address for clients. `host` is without brackets and may be empty; `port` is 0 to 65535."""

    listener_name: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        return f"{self.listener_name}://{_in_url(self.host)}:{self.port}"


@dataclass(slots=True, frozen=True, kw_only=True)
class Listeners:
    """All listeners of a broker, in the order of the property."""

    bound: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    dropped: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class _Address:
    name: str
    host: str
    port: int


def resolve_listeners(
    *,
    listeners: str,
    advertised: str | None,
    protocol_map: str,
    controller_names: tuple[str, ...],
    inter_broker: tuple[str, str] | None,
) -> Listeners:
    """Return the listeners that these properties describe, without the controller's. `inter_broker` is the property that names
    the listener for other brokers, and the name.

    Raises ConfigError, which names the property at fault.
    """
    protocols = parse_protocol_map(protocol_map)
    controllers = {name.upper() for name in controller_names}
    addresses = _parse("listeners", listeners)
    dropped = tuple(address.name for address in addresses if address.name in controllers)
    addresses = [address for address in addresses if address.name not in controllers]
    if not addresses:
        raise ConfigError("listeners", listeners, "names no listener for clients: all are in controller.listener.names")
    _check_ports_differ(listeners, addresses)
    bound = tuple(_endpoint("listeners", listeners, address, protocols) for address in addresses)
    names = {address.name for address in addresses}
    if inter_broker is not None and inter_broker[1].upper() not in names:
        raise ConfigError(*inter_broker, f"must be one of the listeners: {', '.join(sorted(names))}")
    if advertised is None:  # clients get the address that they connected to, which is right for 0.0.0.0 too
        return Listeners(bound=bound, advertised=bound, dropped=dropped)
    return Listeners(bound=bound, advertised=_advertised(advertised, names, controllers, protocols), dropped=dropped)


def _advertised(text: str, names: set[str], controllers: set[str], protocols: dict[str, str]) -> tuple[Endpoint, ...]:
    addresses = [address for address in _parse("advertised.listeners", text) if address.name not in controllers]
    for address in addresses:
        if address.name not in names:
            raise ConfigError("advertised.listeners", text, f"{address.name} is not in listeners")
        if address.host in _UNSPECIFIED:
            raise ConfigError("advertised.listeners", text, f"clients cannot connect to {address.host}")
    if not addresses:
        raise ConfigError("advertised.listeners", text, "names no listener for clients")
    return tuple(_endpoint("advertised.listeners", text, address, protocols) for address in addresses)


def with_address(listeners: str, controller_names: tuple[str, ...], *, host: str | None, port: int | None) -> str:
    """Return `listeners` with another host or port, or both, for its first listener that is not a controller's.

    An IPv6 address needs no brackets. Raises ConfigError.
    """
    controllers = {name.upper() for name in controller_names}
    entries = _entries("listeners", listeners)
    for index, address in enumerate(_parse("listeners", listeners)):
        if address.name not in controllers:
            new_host = address.host if host is None else host.removeprefix("[").removesuffix("]")
            entries[index] = f"{address.name}://{_in_url(new_host)}:{address.port if port is None else port}"
            break
    return ",".join(entries)


def with_ports_raised(key: str, text: str, more: int) -> str:
    """Return listeners with `more` added to each port; any free port remains one. Raises ConfigError that names `key`."""
    raised = [(one, one.port and one.port + more) for one in _parse(key, text)]
    for address, port in raised:
        if port > PORT_MAX:
            raise ConfigError(key, text, f"{address.name} has no free port that is {more} higher")
    return ",".join(f"{address.name}://{_in_url(address.host)}:{port}" for address, port in raised)


def controller_addresses(listeners: str, controller_names: tuple[str, ...]) -> list[tuple[str, int]]:
    """Return the hosts and ports of the controller's listeners. An empty host is every interface. Raises ConfigError."""
    controllers = {name.upper() for name in controller_names}
    return [
        ("" if address.host in EVERYWHERE else address.host, address.port)
        for address in _parse("listeners", listeners)
        if address.name in controllers
    ]


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def parse_protocol_map(text: str) -> dict[str, str]:
    """Return the security protocol of each listener name, both in upper case. Raises ConfigError."""
    key = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for entry in _entries(key, text):
        name, _, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not name or not protocol:
            raise ConfigError(key, text, f"{entry!r} is not NAME:PROTOCOL")
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(key, text, f"{protocol!r} is not one of {', '.join(SECURITY_PROTOCOLS)}")
        if name in protocols:
            raise ConfigError(key, text, f"{name} is there twice")
        protocols[name] = protocol
    return protocols


def parse_connection_overrides(text: str) -> dict[str, int]:
    """Return the limits of max.connections.per.ip.overrides by host or address. Raises ConfigError."""
    key = "max.connections.per.ip.overrides"
    limits: dict[str, int] = {}
    for entry in _entries(key, text):
        host, _, count = entry.rpartition(":")
        if not host or re.fullmatch(r"[0-9]{1,10}", count, re.ASCII) is None:
            raise ConfigError(key, text, f"{entry!r} is not host:count")
        limits[host.strip().removeprefix("[").removesuffix("]")] = int(count)
    return limits


def parse_address(key: str, text: str, scheme: str = "") -> tuple[str, int]:
    """Return the host and port of `host:port` or `[ipv6]:port` behind `scheme`; an empty host is every interface.

    Raises ConfigError.
    """
    return _address(key, text, text.strip().removeprefix(scheme))


def parse_outside(key: str, text: str) -> tuple[str, int]:
    """Return the host and port of `host`, `host:port`, `[ipv6]` or `[ipv6]:port`; without a port, port 0. Raises ConfigError."""
    text = text.strip()
    match = _OUTSIDE.fullmatch(text)
    if match is None:
        raise ConfigError(key, text, "is not HOST or HOST:PORT; an IPv6 address needs brackets")
    if match["ipv6"] is not None:
        _check_ipv6(key, text, match["ipv6"])
    host = match["ipv6"] or match["host"]
    if host in _UNSPECIFIED:
        raise ConfigError(key, text, f"clients cannot connect to {host}")
    if match["port"] is not None and not 0 < int(match["port"]) <= PORT_MAX:
        raise ConfigError(key, text, f"port {match['port']} is not between 1 and {PORT_MAX}")
    return host, int(match["port"] or 0)


def _address(key: str, text: str, address: str) -> tuple[str, int]:
    """Return the host and port of `address`, a part of the property's `text`."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ConfigError(key, text, f"{address!r} is not host:port")
    if int(match["port"]) > PORT_MAX:
        raise ConfigError(key, text, f"port {match['port']} is not between 0 and {PORT_MAX}")
    if match["ipv6"] is not None:
        _check_ipv6(key, text, match["ipv6"])
    return match["ipv6"] or match["host"] or "", int(match["port"])


def _entries(key: str, text: str) -> list[str]:
    if not text.strip():
        return []
    entries = [entry.strip() for entry in text.split(",")]
    if not all(entries):
        raise ConfigError(key, text, "has an empty entry")
    return entries


def _parse(key: str, text: str) -> list[_Address]:
    addresses = []
    for entry in _entries(key, text):
        match = _LISTENER.fullmatch(entry)
        if match is None:
            raise ConfigError(key, text, f"{entry!r} is not NAME://host:port")
        addresses.append(_Address(match["name"].upper(), *_address(key, text, match["address"])))
    for name, count in Counter(address.name for address in addresses).items():
        if count > 1:
            raise ConfigError(key, text, f"{name} is there twice")
    return addresses


def _check_ipv6(key: str, text: str, host: str) -> None:
    import ipaddress  # noqa: PLC0415  # most configurations do not need it, and it costs start-up time

    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        raise ConfigError(key, text, f"{host!r} is not an IPv6 address") from None


def _check_ports_differ(text: str, addresses: list[_Address]) -> None:
    """Check that two listeners share a port only as an IPv4 and an IPv6 address. Listeners on any free port never share one."""
    taken: dict[int, list[_Address]] = {}
    for address in addresses:
        if address.port:
            taken.setdefault(address.port, []).append(address)
    for port, sharing in taken.items():
        if len(sharing) > 2 or (len(sharing) == 2 and {_ip_version(address.host) for address in sharing} != {4, 6}):
            raise ConfigError("listeners", text, f"port {port} is used by {' and '.join(address.name for address in sharing)}")


def _ip_version(host: str) -> int:
    import ipaddress  # noqa: PLC0415  # as above

    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def _endpoint(key: str, text: str, address: _Address, protocols: dict[str, str]) -> Endpoint:
    protocol = protocols.get(address.name)
    if protocol is None:
        raise ConfigError(key, text, f"{address.name} has no security protocol in listener.security.protocol.map")
    return Endpoint(listener_name=address.name, host=address.host, port=address.port, security_protocol=protocol)
