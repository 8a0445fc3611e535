"""Settings that change while the broker runs, and those of client metrics.

A broker's settings in force come from these sources, strongest first: its own dynamic settings, the dynamic defaults of all
brokers, the settings with which it was started, the table's defaults. `in_force` makes a new `BrokerConfig` of them, which
replaces the old one wherever settings are read.

A dynamic setting that no table has is accepted and kept, as in Kafka, where a plugin may read it. The broker never shows its
value again, because it may be a secret.

Source: DynamicBrokerConfig, DynamicConfig.Broker, ClientMetricsConfigs; KIP-226, KIP-714.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pybroker.config.broker import BrokerConfig
from pybroker.config.listener_settings import row_of
from pybroker.config.setting import LONG_MAX, Check, ConfigError, Effect, Kind, Setting, Update, at_least, between, invalid_value
from pybroker.config.table import BROKER_SETTINGS

_CLIENT_SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


class UnfitRequestError(ConfigError):
    """A value that Kafka refuses as an invalid request, not as an invalid configuration."""


CLIENT_PATTERNS_MAX: Final = 2_000
"""The length of a list of client patterns, in characters: to parse that many takes up to 2 ms. Kafka has no bound."""

_parser: Any = re._parser  # type: ignore[attr-defined]  # the only public way to it was removed in 3.11


def _is_client_pattern(text: str) -> bool:
    """Return whether `text` is SELECTOR=REGULAR EXPRESSION.

    The expression is parsed and not compiled, because nothing is matched with it. To compile a few characters may take long: each
    large set of characters in a pattern without regard to case is 6 ms.
    """
    selector, *patterns = text.split("=")
    if len(patterns) != 1 or selector.strip() not in _CLIENT_SELECTORS:
        return False
    try:
        _parser.parse(patterns[0].strip())
    except (re.error, RecursionError, OverflowError, ValueError):
        return False
    return True


def _are_client_patterns(values: tuple[str, ...]) -> bool:
    return all(map(_is_client_pattern, values))


def _rate(name: str, doc: str) -> Setting:
    return Setting(name, Kind.LONG, LONG_MAX, doc, at_least(0), Effect.LATER, Update.CLUSTER_WIDE)


DYNAMIC_ONLY_SETTINGS: Final = {
    setting.name: setting
    for setting in (
        _rate("leader.replication.throttled.rate", "Limit on the bytes per second that leaders send to throttled followers."),
        _rate("follower.replication.throttled.rate", "Limit on the bytes per second that throttled followers fetch."),
        _rate(
            "replica.alter.log.dirs.io.max.bytes.per.second",
            "Limit on the bytes per second that moves between data directories copy.",
        ),
    )
}
"""Settings of a broker that Kafka's tools set while replicas move; no properties file can have them."""

CLIENT_METRICS_CONFIGS: Final = {
    setting.name: setting
    for setting in (
        Setting(
            "interval.ms",
            Kind.INT,
            300_000,
            "How often a client pushes its metrics, in ms.",
            between(100, 3_600_000),
            Effect.LATER,
        ),
        Setting(
            "match",
            Kind.LIST,
            (),
            f"The clients that push their metrics, in at most {CLIENT_PATTERNS_MAX:,} characters.",
            Check("a list of SELECTOR=REGULAR EXPRESSION", _are_client_patterns),
            Effect.LATER,
        ),
        Setting("metrics", Kind.LIST, (), "Prefixes of the names of the metrics that clients push.", None, Effect.LATER),
    )
}


def dynamic_setting(name: str) -> Setting | None:
    """Return the row of a setting of the running broker, or None for a name that no table has."""
    return BROKER_SETTINGS.get(name) or DYNAMIC_ONLY_SETTINGS.get(name)


def in_force(static: BrokerConfig, of_all: Mapping[str, str], of_this: Mapping[str, str]) -> BrokerConfig:
    """Return the configuration of a broker that was started with `static`.

    `of_all` are the dynamic defaults of all brokers, `of_this` the broker's own dynamic settings.

    Raises ConfigError for a value that its row refuses, for a read-only property, and for values that contradict each other.
    """
    changed: dict[str, Any] = {}
    of_listeners: dict[str, str] = {}
    for name, text in {**of_all, **of_this}.items():
        setting = dynamic_setting(name)
        if setting is None:
            if (row := row_of(name)) is not None:
                row.parse(text)
                of_listeners[name] = text
            continue
        if setting.update is Update.READ_ONLY:
            message = f"Cannot update these configs dynamically: Set({name})"
            raise ConfigError(name, setting.shown(text), "cannot be changed while the broker runs", message)
        value = setting.parse(text)
        if value is not None and name in BROKER_SETTINGS:
            changed[setting.attribute] = value
    if not changed and not of_listeners:
        return static
    values = {setting.attribute: getattr(static, setting.attribute) for setting in BROKER_SETTINGS.values()}
    return BrokerConfig(**{**values, **changed}, origins=static.origins, unread={**static.unread, **of_listeners})


def check_cleaner_threads(current: BrokerConfig, changed: BrokerConfig) -> None:
    """Check a change of `log.cleaner.threads`, which Kafka allows in small steps only, and never to none. Raises ConfigError."""
    before, after = current.log_cleaner_threads, changed.log_cleaner_threads
    reason = ""
    if before == after:
        return
    if after < 1:
        reason = "Log cleaner threads should be at least 1"
    elif after < before // 2:
        reason = f"Log cleaner threads cannot be reduced to less than half the current value {before}"
    elif after > before * 2:
        reason = f"Log cleaner threads cannot be increased to more than double the current value {before}"
    if reason:
        error = f"org.apache.kafka.common.config.ConfigException: {reason}"
        raise ConfigError(
            "log.cleaner.threads", after, reason, f"Invalid value {error} for configuration Invalid dynamic configuration"
        )


def check_client_metrics_configs(values: Mapping[str, str]) -> None:
    """Check settings of client metrics.

    Raises UnfitRequestError for an unknown name and an interval out of bounds, ConfigError for any other bad value.
    """
    for name, text in values.items():
        setting = CLIENT_METRICS_CONFIGS.get(name)
        if setting is None:
            reason = "unknown client metrics config name"
            raise UnfitRequestError(name, text, reason, f"Unknown client metrics configuration: {name}")
        if name == "match" and len(text) > CLIENT_PATTERNS_MAX:
            reason = f"must have at most {CLIENT_PATTERNS_MAX:,} characters, and has {len(text):,}"
            raise ConfigError(name, text, reason, invalid_value(name, f"{text[:100]}...", reason))
        try:
            setting.parse(text)
        except ConfigError as error:
            if name == "match":
                bad = next(pattern for pattern in text.split(",") if not _is_client_pattern(pattern))
                raise ConfigError(name, text, error.reason, f"Illegal client matching pattern: {bad}") from None
            message = f"Invalid value {text} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
            raise UnfitRequestError(name, text, error.reason, message) from None
