"""What is asked for and would need several brokers, another role or a protected listener: refused, never left out silently.

A compose file with three brokers, started as three clusters of one, would seem to work: every client that reaches another of them
sees other topics. So whatever tells that there are to be several is refused, and so is a listener without its protection.

Source: KafkaConfig.validateValues, QuorumConfig.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pybroker.config.listeners import SUPPORTED_PROTOCOLS, parse_protocol_map
from pybroker.config.setting import ConfigError

Texts = Mapping[str, tuple[str, str]]

_NAME: Final = re.compile(r"\s*([^:/\s]+)://")
_QUORUM: Final = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
_SEPARATORS: Final = re.compile(r"[,;\s]+")
_VOTER: Final = re.compile(r"\d+@[^@\s]+:\d+")
_PROTECTED: Final = frozenset({"SSL", "SASL_PLAINTEXT", "SASL_SSL"})
DEFAULT_NODE_ID: Final = "1"
_BROKERS: Final = (  # none of them works above 1 with Kafka on one node, so a file for one node has none of them
    "default.replication.factor",
    "min.insync.replicas",
    "offsets.topic.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
)


def check(properties: Texts) -> None:
    """Raises ConfigError for what one broker on plain listeners cannot be."""
    _check_roles(properties)
    _check_quorum(properties)
    _check_zookeeper(properties)
    _check_protocols(properties)
    for name in _BROKERS:
        text = _text(properties, name)
        if text.isdigit() and int(text) > 1:
            raise _refusal(properties, name, f"needs {int(text)} brokers, and this container is a cluster of one")


def _check_roles(properties: Texts) -> None:
    roles = set(_entries(_text(properties, "process.roles")))
    if roles == {"controller"}:
        raise _refusal(
            properties,
            "process.roles",
            "pybroker has no controller apart from its broker: leave this container out",
        )
    if roles == {"broker"}:
        reason = "a broker with its controller elsewhere would be a cluster of its own: use one container with broker,controller"
        raise _refusal(properties, "process.roles", reason)


def _check_quorum(properties: Texts) -> None:
    for name in _QUORUM:
        voters = [one for one in _SEPARATORS.split(_text(properties, name)) if one]
        if len(voters) > 1:
            reason = f"names {len(voters)} controllers, and each container would be a cluster of its own: use one broker"
            raise _refusal(properties, name, reason)
    voters_text = _text(properties, "controller.quorum.voters")
    if voters_text and not _VOTER.fullmatch(voters_text):
        raise _refusal(properties, "controller.quorum.voters", "is not ID@HOST:PORT")
    voter = voters_text.partition("@")[0]
    node_id = _text(properties, "node.id") or _text(properties, "broker.id") or DEFAULT_NODE_ID
    if voter and node_id not in ("-1", voter):
        reason = f"is not the node of this container, {node_id}, which would be a cluster of its own"
        raise _refusal(properties, "controller.quorum.voters", reason)


def _check_zookeeper(properties: Texts) -> None:
    """A file for several brokers need not say how many they are, but it numbers them; Kafka's images have 1 for one, or 0."""
    broker_id = _text(properties, "broker.id")
    if _text(properties, "zookeeper.connect") and broker_id.isdigit() and int(broker_id) > 1:
        reason = (
            "with ZooKeeper looks like one of several brokers, and each container would be a cluster of its own: "
            "use one broker; if it is the only one, number it 1"
        )
        raise _refusal(properties, "broker.id", reason)


def _check_protocols(properties: Texts) -> None:
    name = "security.inter.broker.protocol"
    if (protocol := _text(properties, name).upper()) in _PROTECTED:
        raise _refusal(properties, name, f"{protocol} is not there: pybroker has only {', '.join(SUPPORTED_PROTOCOLS)} listeners")
    for name in ("listeners", "advertised.listeners"):
        if "_{" in _text(properties, name):  # as in wurstmeister's image, whose scripts run HOSTNAME_COMMAND for it
            raise _refusal(properties, name, "has a place for a command's output, and no command is run: write the host itself")
    name = "listener.security.protocol.map"
    protocols = parse_protocol_map(_text(properties, name))
    for key in ("listeners", "advertised.listeners"):
        for entry in _entries(_text(properties, key)):
            match = _NAME.match(entry)
            if match is None:
                continue  # what is no listener at all is refused where listeners are read
            listener = match[1].upper()
            protocol = protocols.get(listener, listener)
            if protocol in _PROTECTED:
                source = name if listener in protocols else key
                reason = (
                    f"the listener {listener} is {protocol}, and pybroker has only {', '.join(SUPPORTED_PROTOCOLS)} listeners"
                )
                raise _refusal(properties, source, reason)


def _text(properties: Texts, name: str) -> str:
    return properties[name][1].strip() if name in properties else ""


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _refusal(properties: Texts, name: str, reason: str) -> ConfigError:
    origin, text = properties[name]
    return ConfigError(name, text, f"{reason} (from {origin})")
