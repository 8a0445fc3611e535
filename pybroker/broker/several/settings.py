"""The settings of each of several brokers of one machine, made from those of all.

Broker i, from 1, has the node id i, `broker_i` in each of the data directories, and all ports raised by i - 1. Port 0 remains any
free port. The metadata store is the parent's.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.broker.old_data import BROKER_PREFIX, old_data
from pybroker.broker.registration import check_addresses
from pybroker.broker.several.ports import check_ports
from pybroker.config.http_listeners import ADMIN, METRICS, SCHEME
from pybroker.config.listeners import with_address, with_ports_raised
from pybroker.config.setting import ConfigError
from pybroker.network.limits import host_and_port

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig
    from pybroker.config.http_listeners import HttpAddress
    from pybroker.log.files.filesystem import Filesystem

UNIX: Final = "unix:"
_NUMBERS_OF_ONE: Final = (-1, 1)
"""The numbers that a file for a single broker may have, because the first of several has them, too."""


def properties_of(config: BrokerConfig, number: int, store: str, *, port: int | None = None) -> dict[str, str]:
    """Return the properties that broker `number` has instead of those of all. `port` is what its first listener got before.

    Raises ConfigError.
    """
    more = number - 1
    listeners = with_ports_raised("listeners", config.listeners, more)
    if port is not None:
        listeners = with_address(listeners, config.controller_listener_names or (), host=None, port=port)
    properties = {
        "node.id": str(number),
        "log.dirs": ",".join(directories_of(config, number)),
        "metadata.store": store,
        "listeners": listeners,
    }
    if config.broker_id != -1:
        properties["broker.id"] = str(number)
    if config.advertised_listeners is not None:
        key = "advertised.listeners"
        properties[key] = with_ports_raised(key, config.advertised_listeners, more)
    if (page := config.metrics_address) is not None:
        properties[METRICS] = _raised(page, more).removeprefix(SCHEME)
    if (api := config.admin_address) is not None:
        properties[ADMIN] = _raised(api, more)
    return properties


def _raised(address: HttpAddress, more: int) -> str:
    return f"{address.scheme}{host_and_port(address.host, address.port and address.port + more)}"


def directories_of(config: BrokerConfig, number: int) -> tuple[str, ...]:
    """Return the data directories of broker `number`."""
    return tuple(str(Path(path) / f"{BROKER_PREFIX}{number}") for path in config.log_dirs)


def check(config: BrokerConfig, count: int) -> None:
    """Raise ConfigError if the settings cannot be those of `count` brokers of one machine."""
    for key, value in (
        ("controller.quorum.voters", config.controller_quorum_voters),
        ("controller.quorum.bootstrap.servers", config.controller_quorum_bootstrap_servers),
    ):
        if value:
            raise ConfigError(key, value, "names the controllers of several machines, but --brokers runs brokers of one machine")
    if config.pybroker_virtual_time:
        raise ConfigError("pybroker.virtual.time", "true", "is for one broker: several need one and the same time")
    for key, number in (("node.id", config.node_id), ("broker.id", config.broker_id)):
        if key in config.origins and number not in _NUMBERS_OF_ONE:
            raise ConfigError(key, number, "--brokers numbers the brokers from 1, so leave it out")
    if config.metadata_store.startswith(UNIX):
        raise ConfigError("metadata.store", config.metadata_store, "is that of another parent of brokers: leave it out")
    properties_of(config, count, "")
    check_addresses(config)
    check_ports(config, count)


def why_not_start(config: BrokerConfig, count: int, filesystem: Filesystem) -> str | None:
    """Return why `count` brokers cannot use the data directories, in one line for a person; None if they can."""
    found = old_data(config.log_dirs, filesystem)
    if found:
        return (
            f"{found[0].path} is the data directory of a single broker, which several cannot share: start without --brokers, or "
            "name another directory"
        )
    more = [number for path in config.log_dirs for number in brokers_in(path) if number > count]
    if more:
        return (
            f"{', '.join(config.log_dirs)} has the data of {max(more)} brokers: start with --brokers {max(more)}, because "
            f"partitions are on broker {max(more)} too"
        )
    return None


def brokers_in(path: str) -> list[int]:
    """Return the numbers of the brokers that have a directory in a data directory."""
    names = [found.name.removeprefix(BROKER_PREFIX) for found in Path(path).glob(f"{BROKER_PREFIX}*") if found.is_dir()]
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())
