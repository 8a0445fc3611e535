"""Reads settings of topics from a file that an administrator brings: ZooKeeper's are in no log directory.

    Dynamic configs for topic orders are:                          what `kafka-configs --describe --entity-type topics` prints,
      retention.ms=-1 sensitive=false synonyms={DYNAMIC_...}       from Kafka 2.5 on
    Configs for topic 'orders' are retention.ms=-1,a.b=c           the same of older ones
    {"orders": {"retention.ms": "-1"}}                             JSON, by topic

With `--all` the tool prints defaults too; only what was set for the topic counts then.
"""

from __future__ import annotations

import json
import re
from typing import Final

_HEAD: Final = re.compile(r"(?:Dynamic|All) configs for topic (\S+) are:")
_VALUE: Final = re.compile(r"\s+([a-z.]+)=(.*?) sensitive=(?:true|false) synonyms=\{(.*)\}")
_OLD: Final = re.compile(r"Configs for topic '?([^\s']+)'? are ?(.*)")
_NEXT: Final = re.compile(r",(?=[a-z]+(?:\.[a-z]+)+=)")  # a value of a list has commas of its own
_OF_TOPIC: Final = "DYNAMIC_TOPIC_CONFIG:"


class ConfigsFileError(Exception):
    """The file cannot be read; the text is one line that names the line."""


def parse(text: str) -> dict[str, dict[str, str]]:
    """Return the settings by topic. Raises ConfigsFileError."""
    if text.lstrip().startswith("{"):
        return _parse_json(text)
    found: dict[str, dict[str, str]] = {}
    topic = None
    for number, line in enumerate(text.splitlines(), start=1):
        if (head := _HEAD.fullmatch(line.strip())) is not None:
            topic = found.setdefault(head[1], {})
        elif (old := _OLD.fullmatch(line.strip())) is not None:
            topic = found.setdefault(old[1], {})
            for pair in _NEXT.split(old[2]) if old[2] else ():
                name, _, value = pair.partition("=")
                topic[name] = value
        elif (value_line := _VALUE.fullmatch(line)) is not None and topic is not None:
            if _OF_TOPIC in value_line[3]:
                topic[value_line[1]] = value_line[2]
        elif line.strip():
            raise ConfigsFileError(f"line {number}: {line.strip()!r} is no line of 'kafka-configs --describe'")
    return found


def _parse_json(text: str) -> dict[str, dict[str, str]]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigsFileError(f"the JSON cannot be read: {error}") from error
    for topic, values in found.items():
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise ConfigsFileError(f"topic {topic}: its settings must be an object of names and texts")
    return dict(found)
