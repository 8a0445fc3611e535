"""A topic's configuration with every value resolved: the topic's own value, else the broker's, else Kafka's default.

Source: LogConfig, KafkaConfig.extractLogConfigMap, ServerTopicConfigSynonyms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pybroker.config.setting import LONG_MAX, ConfigError
from pybroker.config.topic_settings import SYNONYMS, TOPIC_SETTINGS

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig


@dataclass(slots=True, frozen=True, kw_only=True)
class TopicConfig:
    """The configuration of a topic: one attribute per row of `TOPIC_SETTINGS`. Sizes are in bytes, times in ms."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_downconversion_enable: bool = True
    message_format_version: str = "3.0-IV1"
    message_timestamp_after_max_ms: int = LONG_MAX
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_difference_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_granularity: str = "record"
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @classmethod
    def resolve(cls, broker: BrokerConfig, overrides: Mapping[str, str]) -> TopicConfig:
        """Return the configuration of a topic on a broker with `broker`; `overrides` are the topic's own, by Kafka's names.

        Raises ConfigError for a name that is no topic property and for a value that the property does not accept. The error's
        reason can be the message of an INVALID_CONFIG response.
        """
        for name in overrides.keys() - TOPIC_SETTINGS.keys():
            raise ConfigError(name, overrides[name], "unknown topic config name", f"Unknown topic config name: {name}")
        values: dict[str, Any] = {}
        for name, setting in TOPIC_SETTINGS.items():
            text = overrides.get(name)
            values[setting.attribute] = _of_broker(broker, name) if text is None else setting.parse(text)
        values["cleanup_policy"] = frozenset(values["cleanup_policy"])
        # The older single limit applies where a newer one has its default, which is "no limit".
        for name in ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms"):
            if values[name] == LONG_MAX:
                values[name] = values["message_timestamp_difference_max_ms"]
        if "compact" in values["cleanup_policy"]:  # a record must leave the active segment to be compacted in time
            values["segment_ms"] = min(values["segment_ms"], values["max_compaction_lag_ms"])
        config = cls(**values)
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            low, high = config.min_compaction_lag_ms, config.max_compaction_lag_ms
            message = f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
            raise ConfigError("min.compaction.lag.ms", low, f"must not be above max.compaction.lag.ms ({high})", message)
        if config.remote_storage_enable:
            message = (
                "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
            )
            raise ConfigError("remote.storage.enable", "true", "there is no remote storage", message)
        return config


def _of_broker(broker: BrokerConfig, name: str) -> Any:
    """Return the default of a topic property on this broker, in the topic property's unit."""
    for synonym in SYNONYMS[name]:
        value = getattr(broker, synonym.name.replace(".", "_"))
        if value is not None:
            if synonym.factor == 1:
                return value
            return value * synonym.factor if value >= 0 else -1  # -1 hours is "no limit", as -1 ms is
    return TOPIC_SETTINGS[name].default
