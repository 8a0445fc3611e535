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
        voters = _entries(_text(properties, name))
        if len(voters) > 1:
            reason = f"names {len(voters)} controllers, and each container would be a cluster of its own: use one broker"
            raise _refusal(properties, name, reason)
    voter = _text(properties, "controller.quorum.voters").partition("@")[0].strip()
    node_id = _text(properties, "node.id") or _text(properties, "broker.id")
    if voter and node_id not in ("", "-1", voter):
        reason = f"is not the node of this container, {node_id}, which would be a cluster of its own"
        raise _refusal(properties, "controller.quorum.voters", reason)


def _check_protocols(properties: Texts) -> None:
    name = "listener.security.protocol.map"
    protocols = parse_protocol_map(_text(properties, name))
    for key in ("listeners", "advertised.listeners"):
        for entry in _entries(_text(properties, key)):
            match = _NAME.match(entry)
            if match is None:
                continue  # what is no listener at all is refused where listeners are read
            listener = match[1].upper()
            protocol = protocols.get(listener, listener)
            if protocol in ("SSL", "SASL_PLAINTEXT", "SASL_SSL"):
                source = name if listener in protocols else key
                reason = f"{listener} needs {protocol}, and pybroker has only {', '.join(SUPPORTED_PROTOCOLS)} listeners"
                raise _refusal(properties, source, reason)


def _text(properties: Texts, name: str) -> str:
    return properties[name][1].strip() if name in properties else ""


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _refusal(properties: Texts, name: str, reason: str) -> ConfigError:
    origin, text = properties[name]
    return ConfigError(name, text, f"{reason} (from {origin})")
