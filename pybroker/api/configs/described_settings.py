"""Describes settings: the value in force, where it comes from, and what would be in force without it.

Synonyms
    A setting's list begins with the value in force: the topic's or group's own value, then the broker's dynamic one, the dynamic
    default of all brokers, the value that the broker was started with, the default. Several names may mean one thing
    (log.retention.ms, .minutes, .hours). As in Kafka, entries before the first one with the requested name are left out, so that
    retention.ms has no synonyms as long as log.retention.ms is nowhere set.

Properties that no part of the broker reads
    They are shown as Kafka shows them, with the value that was set or with Kafka's default: tools look for some of them. None can
    be changed while the broker runs, because no change would have an effect.

Secrets
    A password, and a property of the broker that is in no table, has no value here. A listener's own setting is as secret as that
    of the broker, and that is its synonym.

Source: ConfigHelper, DynamicBrokerConfig.brokerConfigSynonyms, DescribeConfigsResponse.ConfigSource.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import dropwhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.config.dynamic import CLIENT_METRICS_CONFIGS, DYNAMIC_ONLY_SETTINGS, dynamic_setting
from pybroker.config.group_configs import GROUP_CONFIGS, broker_synonym
from pybroker.config.listener_settings import PREFIX, name_behind, row_of
from pybroker.config.setting import Kind, Setting, Update
from pybroker.config.table import BROKER_SETTINGS
from pybroker.config.topic import TopicConfig
from pybroker.config.topic_settings import SYNONYMS, TOPIC_SETTINGS
from pybroker.config.unread_settings import UNREAD_SETTINGS
from pybroker.metadata.image import BROKER_KIND

if TYPE_CHECKING:
    from pybroker.metadata.controller import Controller


class ConfigSource(IntEnum):
    """Kafka's numbers for where a value was set."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """One place that gives a setting a value."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(slots=True, kw_only=True)
class DescribedSetting:
    """One setting of a resource. `row` is None for a name that no table has."""

    name: str
    value: str | None
    source: ConfigSource
    row: Setting | None = None
    synonyms: Sequence[Synonym] = ()
    is_read_only: bool = False

    @property
    def is_sensitive(self) -> bool:
        """Whether its value is never shown."""
        return self.source < ConfigSource.BROKER_LOGGER and (self.row is None or self.row.kind is Kind.PASSWORD)


_TOGETHER: Final = {
    synonym.name: tuple(one.name for one in synonyms)
    for synonyms in SYNONYMS.values()
    for synonym in synonyms
    if len(synonyms) > 1
}
"""All names of each of the broker's settings that exist in several units, the name that takes precedence first."""


class BrokerLayers:
    """The places that give the settings of one broker, as they are now."""

    __slots__ = ("_layers", "config")

    def __init__(self, controller: Controller) -> None:
        self.config, static = controller.config, controller.static_config
        image = controller.image
        self._layers: tuple[tuple[ConfigSource, Mapping[str, str]], ...] = (
            (ConfigSource.DYNAMIC_BROKER, image.configs_of(BROKER_KIND, str(controller.broker_id))),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, image.configs_of(BROKER_KIND, "")),
            (ConfigSource.STATIC_BROKER, static.unread | {n: _text(BROKER_SETTINGS[n], static) or "" for n in static.origins}),
        )

    def topic_settings(self, own: Mapping[str, str]) -> list[DescribedSetting]:
        """Return all settings of a topic for which `own` was set, in the order of their names."""
        inherited = TopicConfig.resolve(self.config, {})
        settings = []
        for name, row in sorted(TOPIC_SETTINGS.items()):
            value = row.format(row.parse(own[name])) if name in own else _text(row, inherited)
            synonyms = [one.name for one in SYNONYMS[name]]
            settings.append(self._inheriting(row, ConfigSource.TOPIC, name in own, value, synonyms))
        return settings

    def group_settings(self, own: Mapping[str, str]) -> list[DescribedSetting]:
        """Return all settings of a group for which `own` was set, in the order of their names."""
        settings = []
        for name, row in sorted(GROUP_CONFIGS.items()):
            synonym = broker_synonym(name) or name
            if synonym in BROKER_SETTINGS:
                value = own.get(name, _text(BROKER_SETTINGS[synonym], self.config))
                settings.append(self._inheriting(row, ConfigSource.GROUP, name in own, value, (synonym,)))
                continue
            default = row.format(row.default)
            synonyms = [Synonym(synonym, default, ConfigSource.DEFAULT)]
            if name in own:
                synonyms.insert(0, Synonym(name, own[name], ConfigSource.GROUP))
            settings.append(
                DescribedSetting(name=name, value=synonyms[0].value, source=_first(synonyms), row=row, synonyms=synonyms)
            )
        return settings

    def _inheriting(
        self, row: Setting, source: ConfigSource, is_own: bool, value: str | None, names: Sequence[str]
    ) -> DescribedSetting:
        synonyms = self.synonyms(names[0], names) if names else []
        if is_own:
            synonyms.insert(0, Synonym(row.name, value, source))
        return DescribedSetting(name=row.name, value=value, source=_first(synonyms), row=row, synonyms=synonyms)

    def broker_settings(self) -> list[DescribedSetting]:
        """Return all settings of this broker, in the order of their names."""
        were_set = {name for _, layer in self._layers for name in layer}
        settings = []
        for name in sorted(BROKER_SETTINGS.keys() | UNREAD_SETTINGS.keys() | were_set):
            row = _row(name)
            names = (name, name_behind(name)) if name.startswith(PREFIX) else _TOGETHER.get(name, (name,))
            synonyms = self.synonyms(name, names)
            value = _text(BROKER_SETTINGS[name], self.config) if name in BROKER_SETTINGS else _first_value(synonyms)
            settings.append(_of_broker(name, row, value, synonyms))
        return settings

    def default_broker_settings(self) -> list[DescribedSetting]:
        """Return the dynamic defaults of all brokers, in the order of their names."""
        source, layer = self._layers[1]
        settings = []
        for name in sorted(layer):
            row = _row(name)
            value = _visible(row, layer[name])
            settings.append(_of_broker(name, row, value, [Synonym(name, value, source)]))
        return settings

    def synonyms(self, asked: str, names: Sequence[str]) -> list[Synonym]:
        """Return the values given to `names`, strongest first, from the first entry of `asked` on."""
        found = [
            Synonym(name, _visible(_row(name), layer[name]), source)
            for source, layer in self._layers
            for name in names
            if name in layer
        ]
        for name in names:
            row = _row(name)
            if row is not None and row.default is not None and name not in DYNAMIC_ONLY_SETTINGS:
                found.append(Synonym(name, _visible(row, row.format(row.default)), ConfigSource.DEFAULT))
        return list(dropwhile(lambda synonym: synonym.name != asked, found))


def client_metrics_settings(own: Mapping[str, str]) -> list[DescribedSetting]:
    """Return the settings of a subscription of client metrics, in the order of the names."""
    return [
        DescribedSetting(name=name, value=own[name], source=ConfigSource.CLIENT_METRICS, row=CLIENT_METRICS_CONFIGS.get(name))
        for name in sorted(own)
    ]


def _of_broker(name: str, row: Setting | None, value: str | None, synonyms: Sequence[Synonym]) -> DescribedSetting:
    return DescribedSetting(
        name=name,
        value=value,
        source=_first(synonyms),
        row=row,
        synonyms=synonyms,
        is_read_only=row is None or row.update is Update.READ_ONLY,
    )


def _row(name: str) -> Setting | None:
    row = dynamic_setting(name) or UNREAD_SETTINGS.get(name)
    if row is None and (of_listener := row_of(name)) is not None:  # its default is that of the broker, by the broker's name
        row = of_listener._replace(default=None, update=Update.READ_ONLY)
    return row


def _first(synonyms: Sequence[Synonym]) -> ConfigSource:
    return synonyms[0].source if synonyms else ConfigSource.DEFAULT


def _first_value(synonyms: Sequence[Synonym]) -> str | None:
    return synonyms[0].value if synonyms else None


def _visible(row: Setting | None, text: str) -> str | None:
    return None if row is None or row.kind is Kind.PASSWORD else text


def _text(row: Setting, config: Any) -> str | None:
    value = getattr(config, row.attribute)
    if value is None or row.kind is Kind.PASSWORD:
        return None
    return row.format(tuple(sorted(value)) if isinstance(value, frozenset) else value)
