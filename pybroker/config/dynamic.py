"""Settings that change while the broker runs, and those of groups and client metrics.

A broker's settings in force are, strongest first: its own dynamic ones, the dynamic defaults of all brokers, what it was started
with, the table's defaults. `in_force` makes a new `BrokerConfig` of them; who reads settings is given the new one.

A dynamic setting that no table knows is taken and kept, as in Kafka, where a plugin may read it; its value is never shown again,
since it may be a secret.

Source: DynamicBrokerConfig, DynamicConfig.Broker, GroupConfig, ClientMetricsConfigs; KIP-226, KIP-848, KIP-714.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pybroker.config.broker import BrokerConfig
from pybroker.config.setting import LONG_MAX, ConfigError, Effect, Kind, Setting, Update, at_least, between
from pybroker.config.table import BROKER_SETTINGS


def _rate(name: str, doc: str) -> Setting:
    return Setting(name, Kind.LONG, LONG_MAX, doc, at_least(0), Effect.LATER, Update.CLUSTER_WIDE)


DYNAMIC_ONLY_SETTINGS: Final = {
    setting.name: setting
    for setting in (
        _rate("leader.replication.throttled.rate", "Bytes per second to throttled followers."),
        _rate("follower.replication.throttled.rate", "Bytes per second from leaders of throttled replicas."),
        _rate("replica.alter.log.dirs.io.max.bytes.per.second", "Bytes per second of moves between data directories."),
    )
}
"""Settings of a broker that no file can have, set by Kafka's tools while replicas move."""

GROUP_CONFIGS: Final = {
    setting.name: setting
    for setting in (
        Setting("consumer.heartbeat.interval.ms", Kind.INT, 5000, "Heartbeat interval of a member, in ms.", at_least(1)),
        Setting("consumer.session.timeout.ms", Kind.INT, 45_000, "Session timeout of a member, in ms.", at_least(1)),
    )
}
"""Settings of a consumer group; the broker's of the same name with `group.` in front give the defaults and the bounds."""

CLIENT_METRICS_CONFIGS: Final = {
    setting.name: setting
    for setting in (
        Setting("interval.ms", Kind.INT, 300_000, "How often to push, in ms.", between(100, 3_600_000)),
        Setting("match", Kind.LIST, (), "Which clients push."),
        Setting("metrics", Kind.LIST, (), "Prefixes of the names to push."),
    )
}


def dynamic_setting(name: str) -> Setting | None:
    """The row of a broker's setting that may be set while it runs; None for a name that no table has."""
    return BROKER_SETTINGS.get(name) or DYNAMIC_ONLY_SETTINGS.get(name)


def in_force(static: BrokerConfig, of_all: Mapping[str, str], of_this: Mapping[str, str]) -> BrokerConfig:
    """The configuration of a broker started with `static`, with the dynamic defaults `of_all` brokers and its own `of_this`.

    Raises ConfigError for a value that its row refuses, for one that is read only, and for values that do not go together.
    """
    changed: dict[str, Any] = {}
    for name, text in {**of_all, **of_this}.items():
        setting = dynamic_setting(name)
        if setting is None:
            continue
        if setting.update is Update.READ_ONLY:
            raise ConfigError(name, setting.shown(text), "cannot be changed while the broker runs")
        value = setting.parse(text)
        if value is not None and name in BROKER_SETTINGS:
            changed[setting.attribute] = value
    if not changed:
        return static
    values = {setting.attribute: getattr(static, setting.attribute) for setting in BROKER_SETTINGS.values()}
    return BrokerConfig(**{**values, **changed}, origins=static.origins)


def check_group_configs(broker: BrokerConfig, values: Mapping[str, str]) -> None:
    """Raises ConfigError for an unknown name, a bad value, and one outside of the broker's bounds."""
    parsed = {name: _known(GROUP_CONFIGS, name, text, "group").parse(text) for name, text in values.items()}
    for name, lowest, highest in (
        (
            "consumer.heartbeat.interval.ms",
            broker.group_consumer_min_heartbeat_interval_ms,
            broker.group_consumer_max_heartbeat_interval_ms,
        ),
        (
            "consumer.session.timeout.ms",
            broker.group_consumer_min_session_timeout_ms,
            broker.group_consumer_max_session_timeout_ms,
        ),
    ):
        value = parsed.get(name)
        if isinstance(value, int) and not lowest <= value <= highest:
            raise ConfigError(name, value, f"must be between {lowest} and {highest}")
    heartbeat_ms = parsed.get("consumer.heartbeat.interval.ms", broker.group_consumer_heartbeat_interval_ms)
    session_ms = parsed.get("consumer.session.timeout.ms", broker.group_consumer_session_timeout_ms)
    assert isinstance(heartbeat_ms, int)
    assert isinstance(session_ms, int)
    if session_ms <= heartbeat_ms:
        raise ConfigError("consumer.session.timeout.ms", session_ms, f"must be above the heartbeat interval ({heartbeat_ms})")


def check_client_metrics_configs(values: Mapping[str, str]) -> None:
    """Raises ConfigError for an unknown name and a bad value."""
    for name, text in values.items():
        _known(CLIENT_METRICS_CONFIGS, name, text, "client metrics").parse(text)


def _known(table: Mapping[str, Setting], name: str, text: str, of: str) -> Setting:
    if name not in table:
        raise ConfigError(name, text, f"unknown {of} config name")
    return table[name]
