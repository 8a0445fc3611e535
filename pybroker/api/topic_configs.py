"""The settings that are in force for a topic, and where each of them comes from.

Source: KafkaConfigSchema.resolveEffectiveTopicConfigs, DescribeConfigsResponse.ConfigSource.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from pybroker.config.topic import TopicConfig
from pybroker.config.topic_settings import SYNONYMS, TOPIC_SETTINGS

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig


class ConfigSource(IntEnum):
    """Kafka's numbers for where a value was set."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class EffectiveConfig(NamedTuple):
    """One setting, its value as text."""

    name: str
    value: str
    source: ConfigSource


def effective_configs(broker: BrokerConfig, overrides: Mapping[str, str]) -> list[EffectiveConfig]:
    """All settings of a topic with `overrides` of its own, which have been checked, in the order of their names."""
    defaults = TopicConfig.resolve(broker, {})
    return [
        EffectiveConfig(name, overrides[name], ConfigSource.TOPIC)
        if name in overrides
        else EffectiveConfig(name, _text(defaults, name), _source(broker, name))
        for name in sorted(TOPIC_SETTINGS)
    ]


def _source(broker: BrokerConfig, name: str) -> ConfigSource:
    is_set = any(synonym.name in broker.origins for synonym in SYNONYMS[name])
    return ConfigSource.STATIC_BROKER if is_set else ConfigSource.DEFAULT


def _text(config: TopicConfig, name: str) -> str:
    setting = TOPIC_SETTINGS[name]
    value = getattr(config, setting.attribute)
    return setting.format(tuple(sorted(value)) if isinstance(value, frozenset) else value)
