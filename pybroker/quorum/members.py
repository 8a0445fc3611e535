"""Which nodes are the controllers, and whether this process is a controller, a broker, or both.

Source: QuorumConfig (controller.quorum.voters, controller.quorum.bootstrap.servers), KafkaConfig.validateValues.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.config.listeners import PORT_MAX, controller_addresses
from pybroker.config.setting import ConfigError
from pybroker.network.limits import host_and_port

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig

VOTERS: Final = "controller.quorum.voters"
SERVERS: Final = "controller.quorum.bootstrap.servers"
CLIENT_PORT_ABOVE: Final = 1_000
"""A member of etcd listens for brokers at the port of its controller plus this."""

_VOTER: Final = re.compile(r"(?:(?P<id>\d+)@)?(?:\[(?P<ipv6>[^\]]+)\]|(?P<host>[^@:\s]+)):(?P<port>\d{1,5})", re.ASCII)


class Voter(NamedTuple):
    """A controller: a name that no other one has, and where the other controllers reach it."""

    name: str
    host: str
    port: int

    @property
    def peer_url(self) -> str:
        """The address at which other members of etcd reach it."""
        return f"http://{host_and_port(self.host, self.port)}"

    @property
    def client_url(self) -> str:
        """The address at which brokers reach it."""
        return f"http://{host_and_port(self.host, self.port + CLIENT_PORT_ABOVE)}"


@dataclass(slots=True, frozen=True, kw_only=True)
class Quorum:
    """The controllers of a cluster. `own` is the one that this process runs, if any, and `listen_host` where it listens, which is
    empty for every interface.
    """

    voters: tuple[Voter, ...]
    own: Voter | None
    listen_host: str
    is_broker: bool

    @property
    def metadata_store(self) -> str:
        """The setting `metadata.store` by which a broker uses the members of etcd, beginning with the one beside it."""
        others = [voter for voter in self.voters if voter != self.own]
        return "etcd:" + ",".join(voter.client_url for voter in (*([] if self.own is None else [self.own]), *others))


def quorum_of(config: BrokerConfig, is_own_host: Callable[[str], bool]) -> Quorum | None:
    """Return the controllers that the settings name; None if the broker is a cluster by itself, or `metadata.store` is set.

    `is_own_host` returns whether a name is one of this machine or container. Raises ConfigError.
    """
    voters = _voters(config)
    roles = set(config.process_roles) or {"broker", "controller"}
    if not voters or "metadata.store" in config.origins or (len(voters) == 1 and roles == {"broker", "controller"}):
        return None
    is_broker = "broker" in roles
    if "controller" not in roles:
        return Quorum(voters=voters, own=None, listen_host="", is_broker=is_broker)
    own, listen_host = _own(config, voters, is_own_host)
    return Quorum(voters=voters, own=own, listen_host=listen_host, is_broker=is_broker)


def numbered_voters(config: BrokerConfig) -> tuple[Voter, ...]:
    """Return the controllers that a broker uses and whose numbers the settings name; nothing for other metadata stores."""
    is_used = config.metadata_store.startswith("etcd:") and "metadata.store" not in config.origins
    return _voters(config) if is_used and config.controller_quorum_voters else ()


def _voters(config: BrokerConfig) -> tuple[Voter, ...]:
    key, texts = VOTERS, config.controller_quorum_voters
    if not texts:
        key, texts = SERVERS, config.controller_quorum_bootstrap_servers
    voters = tuple(_parsed(key, texts, text) for text in texts)
    for one in ("name", "peer_url"):
        if len({getattr(voter, one) for voter in voters}) < len(voters):
            raise ConfigError(key, ",".join(texts), "names a controller twice")
    return voters


def _parsed(key: str, texts: Sequence[str], text: str) -> Voter:
    form = "ID@HOST:PORT" if key == VOTERS else "HOST:PORT"
    match = _VOTER.fullmatch(text)
    if match is None or (match["id"] is None) is (key == VOTERS):
        raise ConfigError(key, ",".join(texts), f"{text!r} is not {form}")
    host, port = match["ipv6"] or match["host"], int(match["port"])
    if not 0 < port <= PORT_MAX - CLIENT_PORT_ABOVE:
        raise ConfigError(key, ",".join(texts), f"port {port} is not between 1 and {PORT_MAX - CLIENT_PORT_ABOVE}")
    return Voter(match["id"] or host_and_port(host, port), host, port)


def _add(voter: str) -> str:
    return f"add {voter} to it on every node, or, if this node is no controller, set process.roles=broker"


def _own(config: BrokerConfig, voters: Sequence[Voter], is_own_host: Callable[[str], bool]) -> tuple[Voter, str]:
    """Return this process' controller, and the host at which it listens."""
    addresses = controller_addresses(config.listeners, config.controller_listener_names or ())
    ports = {port: host for host, port in addresses}
    if config.controller_quorum_voters:
        own = next((voter for voter in voters if voter.name == str(config.node_id)), None)
        if own is None:
            raise ConfigError(
                VOTERS,
                ",".join(config.controller_quorum_voters),
                f"names no controller with node.id={config.node_id}, this node: {_add(f'{config.node_id}@HOST:PORT')}",
            )
    else:
        found = [voter for voter in voters if (not ports or voter.port in ports) and is_own_host(voter.host)]
        if len(found) != 1:
            reason = f"names no address of this node: {_add('its HOST:PORT')}" if not found else "names this node more than once"
            raise ConfigError(SERVERS, ",".join(config.controller_quorum_bootstrap_servers), reason)
        own = found[0]
    if ports and own.port not in ports:
        raise ConfigError(
            "listeners",
            config.listeners,
            f"has no listener of controller.listener.names at port {own.port}, where the others look for controller {own.name}",
        )
    return own, ports.get(own.port, "")
