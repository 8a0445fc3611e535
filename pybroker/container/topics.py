"""Reads the topics that a variable asks for.

    PYBROKER_TOPICS=orders:6,payments:3:1:compact
    KAFKA_CREATE_TOPICS=orders:6:1,payments:3:1:compact         as wurstmeister's image has it

    name[:partitions[:replicas[:cleanup policy]]][:setting=value ...]

Commas, line ends, and the characters in KAFKA_CREATE_TOPICS_SEPARATOR separate topics. A policy of two words is `compact,delete`.
The policy may be followed by ` --config=setting=value`, which wurstmeister's script passes to kafka-topics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pybroker.config.setting import ConfigError
from pybroker.metadata.names import INTERNAL_TOPICS, invalid_name_reason
from pybroker.metadata.new_topic import BROKER_DEFAULT, NewTopic

_SEPARATOR: Final = re.compile(r"[\r\n]+|,(?!\s*(?:compact|delete)\s*(?::[^:,\r\n]*=|--config\b|[,\r\n]|$))")
_CONFIG: Final = re.compile(r"\s+--config(?:=|\s+)")
_POLICY: Final = re.compile(r"\w+(\s*,\s*\w+)*")
_SETTING: Final = re.compile(r"[\w.]+")
_FORM: Final = "is not name:partitions:replicas:policy, or no comma or line end separates it from the next"
_ALONE: Final = "but this container is a cluster of one"
_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


def wanted_topics(
    variables: Mapping[str, str], separator: str = "", *, takes_replicas: bool = False
) -> dict[str, tuple[str, NewTopic]]:
    """Return, by topic, the variable that asks for it and how to create it; `takes_replicas`: it may ask for several replicas.

    Raises ConfigError that names variable and entry.
    """
    wanted: dict[str, tuple[str, NewTopic]] = {}
    for variable, text in variables.items():
        for mark in set(separator) - set(" ,$'\\n\n") if variable == "KAFKA_CREATE_TOPICS" else ():
            text = text.replace(mark, "\n")
        for entry in _SEPARATOR.split(text):
            if not entry.strip():
                continue
            topic = _topic(variable, entry.strip(), takes_replicas=takes_replicas)
            if topic.name in wanted:
                raise ConfigError(variable, entry.strip(), f"asks for the topic {topic.name} a second time")
            wanted[topic.name] = (variable, topic)
    return wanted


def _topic(variable: str, entry: str, *, takes_replicas: bool) -> NewTopic:
    name, *rest = (part.strip() for part in entry.split(":"))
    reason = invalid_name_reason(name)
    if reason is not None:
        raise ConfigError(variable, entry, f"{_FORM}: {reason}")
    if name in INTERNAL_TOPICS:
        raise ConfigError(variable, entry, f"the broker creates its internal topic {name} itself")
    rest = [piece for part in rest for piece in _CONFIG.split(part)]
    plain = [part for part in rest if "=" not in part]
    settings = [part.partition("=") for part in rest if "=" in part]
    partitions, replicas, policy = [*plain, "", "", ""][:3]
    if len(plain) > 3 or (policy and _POLICY.fullmatch(policy) is None):
        raise ConfigError(variable, entry, _FORM)
    configs: dict[str, str | None] = {key.strip(): value.strip() for key, _, value in settings}
    if strange := next((key for key in configs if _SETTING.fullmatch(key) is None), None):
        raise ConfigError(variable, entry, f"{strange!r} is not the name of a setting")
    if policy:
        configs["cleanup.policy"] = re.sub(r"\s", "", policy)
    insync = configs.get("min.insync.replicas") or ""
    if insync.isdigit() and int(insync) > 1 and not takes_replicas:
        raise ConfigError(variable, entry, f"{insync} in-sync replicas need {insync} brokers, {_ALONE}")
    partition_count, factor = _count(variable, entry, "partitions", partitions), _count(variable, entry, "replicas", replicas)
    if factor > 1 and not takes_replicas:
        raise ConfigError(variable, entry, f"{replicas} replicas need {replicas} brokers, {_ALONE}")
    return NewTopic(name=name, partition_count=partition_count, replication_factor=factor, configs=configs)


def _count(variable: str, entry: str, what: str, text: str) -> int:
    """Return a number of the entry; the broker's default where there is none."""
    if not text:
        return BROKER_DEFAULT
    if _NUMBER.fullmatch(text) is None or int(text) == 0:
        raise ConfigError(variable, entry, f"{text!r} is not a number of {what}")
    return int(text)
