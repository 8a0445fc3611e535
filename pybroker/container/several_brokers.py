"""Finds signs that a container is to be one of several brokers where its settings do not show how the brokers find each other.

Such a container is refused. A compose file with three brokers, started as three clusters of one, would seem to work: every client
that reaches another of them sees other topics. Brokers find each other by the controllers (`pybroker.quorum`), or by a
metadata.store that they share. A setting with an empty text means nothing here: an empty variable over a file does not take away
what the file has about other brokers.

Source: QuorumConfig, KafkaConfig.validateValues; start-kafka.sh of wurstmeister's image for BROKER_ID_COMMAND.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from pybroker.config.listeners import EVERYWHERE
from pybroker.config.setting import ConfigError

if TYPE_CHECKING:
    from pybroker.config.load import Texts

DEFAULT_NODE_ID: Final = "1"
FIRST_GENERATED_ID: Final = 1001
"""The first id that ZooKeeper assigns, so also the id of a single broker that was given none."""

NUMBERING: Final = "BROKER_ID_COMMAND"

_VOTERS: Final = "controller.quorum.voters"
_SERVERS: Final = "controller.quorum.bootstrap.servers"
_VOTER: Final = re.compile(r"\d+@[^@\s]+:\d+")
_SERVER: Final = re.compile(r"\[?([^\s\]]+)\]?:(\d+)")
_LISTENER: Final = re.compile(r"([^:/\s,]+)://(?:\[([^\]]*)\]|([^:,\s]*)):(\d+)")
_REPLICAS: Final = re.compile(r"(.*\.)?(replication\.factor|insync\.replicas|topic\.replicas|min\.isr)")
"""Settings of a broker's own topics and of Confluent's parts; a single node has none of them above 1."""

ACCEPT: Final = "to keep one replica instead, set pybroker.replication.factor.accept=any"
_APART: Final = "and each container would be a cluster of its own"


def stated(sources: Iterable[Texts]) -> dict[str, tuple[str, str]]:
    """Merge the sources, strongest first, without empty texts."""
    found: dict[str, tuple[str, str]] = {}
    for source in sources:
        for name, (origin, text) in source.items():
            if text.strip():
                found.setdefault(name, (origin, text))
    return found


def check(properties: Texts, is_own_host: Callable[[str], bool]) -> None:
    """Refuse settings that imply other brokers, unless they show where the cluster's metadata is. Raises ConfigError.

    `properties` come from `stated`. `is_own_host` returns whether a host that no listener has is an address of this container.
    """
    if is_of_several(properties):
        return
    _check_quorum(properties)
    _check_servers(properties, is_own_host)
    _check_numbers(properties)
    if takes_replicas(properties):
        return
    for name in properties:
        text = text_of(properties, name)
        if _REPLICAS.fullmatch(name) and text.isdigit() and int(text) > 1:
            raise refusal(properties, name, f"needs {int(text)} brokers, but this container is a cluster of one; {ACCEPT}")


def is_of_several(properties: Texts) -> bool:
    """Return whether the brokers share a metadata store, or the settings name several controllers, or one that runs elsewhere."""
    roles = {role.strip() for role in text_of(properties, "process.roles").split(",") if role.strip()}
    nodes = [node for node in (text_of(properties, _VOTERS) or text_of(properties, _SERVERS)).split(",") if node.strip()]
    has_one_role = roles in ({"broker"}, {"controller"})
    return "metadata.store" in properties or len(nodes) > 1 or (has_one_role and bool(nodes))


def takes_replicas(properties: Texts) -> bool:
    """Return whether topics may ask for several replicas."""
    return is_of_several(properties) or text_of(properties, "pybroker.replication.factor.accept") == "any"


def undecided(properties: Texts) -> list[str]:
    """Return lines of warning about what may be meant for several brokers or for one."""
    connect = text_of(properties, "zookeeper.connect")
    if not connect:
        return []
    several = "If other brokers have the same, each is a cluster of its own: use one broker"
    return [f"zookeeper.connect={connect} is ignored: pybroker needs no ZooKeeper. {several}"]


def refusal(properties: Texts, name: str, reason: str) -> ConfigError:
    """Return an error about a property, with the place where it was set."""
    origin, text = properties[name]
    return ConfigError(name, text.strip(), f"{reason} (from {origin})")


def _check_quorum(properties: Texts) -> None:
    voters = text_of(properties, _VOTERS)
    if voters and not _VOTER.fullmatch(voters):
        raise refusal(properties, _VOTERS, "is not ID@HOST:PORT")
    node_id = _node_id(properties) or DEFAULT_NODE_ID
    if voters and node_id not in ("-1", voters.partition("@")[0]):
        reason = f"does not name the node of this container, {node_id}, which would be a cluster of its own"
        raise refusal(properties, _VOTERS, reason)


def _check_servers(properties: Texts, is_own_host: Callable[[str], bool]) -> None:
    """Check a controller's address, which has no id: it is this container's when its host and port are."""
    server = text_of(properties, _SERVERS)
    if not server:
        return
    match = _SERVER.fullmatch(server)
    if match is None:
        raise refusal(properties, _SERVERS, "is not HOST:PORT")
    listeners = [
        (found[1].upper(), found[2] or found[3], found[4])
        for name in ("listeners", "advertised.listeners")
        for found in _LISTENER.finditer(text_of(properties, name))
    ]
    controllers = {name.strip().upper() for name in text_of(properties, "controller.listener.names").split(",")}
    ports = {port for name, _, port in listeners if name in controllers}
    if ports and match[2] not in ports:
        reason = (
            f"does not name the controller of this container, whose port is {', '.join(sorted(ports))}, {_APART}: use one broker"
        )
        raise refusal(properties, _SERVERS, reason)
    own = {host.lower() for _, host, _ in listeners} - EVERYWHERE
    if match[1].lower() not in own and not is_own_host(match[1]):
        reason = (
            f"{match[1]} is not known as an address of this container, {_APART}: use one broker; "
            f"if it is this container, write localhost:{match[2]}"
        )
        raise refusal(properties, _SERVERS, reason)


def _check_numbers(properties: Texts) -> None:
    """Check the broker's number: a file from ZooKeeper's time rarely counts its brokers, but numbers them; a single one has 0 or
    1.
    """
    node_id = _node_id(properties)
    if NUMBERING in properties and not node_id:
        reason = f"numbers several brokers, {_APART}: use one broker; if it is the only one, set KAFKA_BROKER_ID=1 instead"
        raise refusal(properties, NUMBERING, reason)
    if not text_of(properties, "zookeeper.connect") or not node_id.isdigit() or int(node_id) in (0, 1, FIRST_GENERATED_ID):
        return
    reason = f"with ZooKeeper looks like one of several brokers, {_APART}: use one broker; if it is the only one, number it 1"
    raise refusal(properties, "node.id" if "node.id" in properties else "broker.id", reason)


def _node_id(properties: Texts) -> str:
    return text_of(properties, "node.id") or text_of(properties, "broker.id")


def text_of(properties: Texts, name: str) -> str:
    """Return the text of a property without blanks around it; an empty one if it is not set."""
    return properties[name][1].strip() if name in properties else ""
