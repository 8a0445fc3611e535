"""The ports of several brokers of one machine: no two of them may have the same, and no other program may have one.

Each broker would find that out by itself, but with a line for each, and some of them after others have begun.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from pybroker.config.setting import ConfigError
from pybroker.network import binding
from pybroker.network.limits import host_and_port

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig


class Port(NamedTuple):
    """A port of a broker, and the property that chooses it; the port is never 0."""

    broker: int
    key: str
    value: str
    host: str
    port: int


def ports_of(config: BrokerConfig, count: int) -> list[Port]:
    """Return the ports of `count` brokers, apart from those that the system chooses."""
    found = [("listeners", config.listeners, one.host, one.port) for one in config.endpoints]
    for key, value, address in (
        ("metrics.listener", config.metrics_listener, config.metrics_address),
        ("pybroker.admin.listener", config.pybroker_admin_listener, config.admin_address),
    ):
        found += [] if address is None else [(key, value, address.host, address.port)]
    return [
        Port(number, key, value, host, port + number - 1)
        for number in range(1, count + 1)
        for key, value, host, port in found
        if port
    ]


def check_ports(config: BrokerConfig, count: int) -> None:
    """Raise ConfigError if two of `count` brokers, or two properties of one, need the same port."""
    for one, other in combinations(ports_of(config, count), 2):
        if _meet(one, other):
            raise ConfigError(
                one.key,
                one.value,
                f"broker {one.broker} and {other.key}={other.value} of broker {other.broker} need the same port {one.port}: "
                f"broker i of {count} has all ports raised by i - 1, so choose ports that differ by {count} or more",
            )


async def why_not_listen(config: BrokerConfig, count: int) -> str | None:
    """Return why one of `count` brokers could not listen at one of its ports, in one line for a person; None if all can."""
    for one in ports_of(config, count):
        if (reason := await binding.why_not_listen(one.host, one.port)) is not None:
            return (
                f"{one.key}={one.value}: broker {one.broker} of {count} cannot listen at "
                f"{host_and_port(one.host, one.port)}: {reason}. If another program listens there, stop it, or choose "
                "another port; broker i has all ports raised by i - 1"
            )
    return None


def _meet(one: Port, other: Port) -> bool:
    hosts = {one.host, other.host}
    is_at_all = bool(hosts & {"", "::"}) or ("0.0.0.0" in hosts and not any(":" in host for host in hosts))  # noqa: S104
    return one.port == other.port and (len(hosts) == 1 or is_at_all)
