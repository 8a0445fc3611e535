from __future__ import annotations

import dataclasses
import re

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.config.setting import LONG_MAX, ConfigError
from pybroker.config.table import BROKER_SETTINGS
from pybroker.config.topic import TopicConfig
from pybroker.config.topic_settings import SYNONYMS, TOPIC_SETTINGS

HOUR_MS = 3_600_000


def test_the_class_has_the_tables_attributes_and_defaults() -> None:
    declared = {field.name: field.default for field in dataclasses.fields(TopicConfig)}
    expected = {setting.attribute: setting.default for setting in TOPIC_SETTINGS.values()}
    assert declared == {**expected, "cleanup_policy": frozenset({"delete"})}


def test_without_overrides_on_a_default_broker_everything_is_kafkas_default() -> None:
    assert TopicConfig.resolve(BrokerConfig(), {}) == TopicConfig()


@pytest.mark.parametrize("name", [name for name, synonyms in SYNONYMS.items() if synonyms])
def test_every_synonym_is_a_broker_property_with_the_topics_default(name: str) -> None:
    *_, last = SYNONYMS[name]
    fallback = BROKER_SETTINGS[last.name].default
    assert isinstance(fallback, int | float | str | tuple)
    assert (fallback * last.factor if last.factor > 1 else fallback) == TOPIC_SETTINGS[name].default


@pytest.mark.parametrize(
    ("broker", "attribute", "value"),
    [
        ({"log_segment_bytes": 5000}, "segment_bytes", 5000),
        ({"log_roll_hours": 2}, "segment_ms", 2 * HOUR_MS),
        ({"log_roll_hours": 2, "log_roll_ms": 7}, "segment_ms", 7),
        ({"log_roll_jitter_hours": 1}, "segment_jitter_ms", HOUR_MS),
        ({"log_roll_jitter_hours": 1, "log_roll_jitter_ms": 3}, "segment_jitter_ms", 3),
        ({"log_retention_hours": 3}, "retention_ms", 3 * HOUR_MS),
        ({"log_retention_hours": 3, "log_retention_minutes": 2}, "retention_ms", 120_000),
        ({"log_retention_hours": 3, "log_retention_minutes": 2, "log_retention_ms": 1}, "retention_ms", 1),
        ({"log_retention_granularity": "segment"}, "retention_granularity", "segment"),
        ({"log_retention_hours": -1}, "retention_ms", -1),
        ({"log_retention_minutes": -1}, "retention_ms", -1),
        ({"log_flush_scheduler_interval_ms": 9}, "flush_ms", 9),
        ({"log_flush_scheduler_interval_ms": 9, "log_flush_interval_ms": 8}, "flush_ms", 8),
        ({"message_max_bytes": 10}, "max_message_bytes", 10),
        ({"log_index_size_max_bytes": 40}, "segment_index_bytes", 40),
        ({"log_segment_delete_delay_ms": 1}, "file_delete_delay_ms", 1),
        ({"log_cleanup_policy": ("compact", "delete")}, "cleanup_policy", frozenset({"compact", "delete"})),
        ({"log_cleaner_min_cleanable_ratio": 0.1}, "min_cleanable_dirty_ratio", 0.1),
        ({"log_message_downconversion_enable": False}, "message_downconversion_enable", False),
        ({"log_message_timestamp_difference_max_ms": 5}, "message_timestamp_before_max_ms", 5),
        (
            {"log_message_timestamp_difference_max_ms": 5, "log_message_timestamp_after_max_ms": 6},
            "message_timestamp_after_max_ms",
            6,
        ),
        ({"min_insync_replicas": 2}, "min_insync_replicas", 2),
    ],
)
def test_the_brokers_value_counts_where_the_topic_has_none(broker: dict[str, object], attribute: str, value: object) -> None:
    assert getattr(TopicConfig.resolve(BrokerConfig(**broker), {}), attribute) == value


def test_the_topics_own_value_wins() -> None:
    broker = BrokerConfig(log_retention_ms=1, compression_type="gzip", log_message_timestamp_difference_max_ms=5)
    overrides = {"retention.ms": "-1", "compression.type": "zstd", "message.timestamp.difference.max.ms": str(LONG_MAX)}
    config = TopicConfig.resolve(broker, overrides)
    assert (config.retention_ms, config.compression_type) == (-1, "zstd")
    assert config.message_timestamp_before_max_ms == LONG_MAX


BAD = {
    "cleanup.policy": "purge",
    "compression.gzip.level": "0",
    "compression.lz4.level": "18",
    "compression.type": "brotli",
    "compression.zstd.level": "23",
    "delete.retention.ms": "-1",
    "file.delete.delay.ms": "-1",
    "flush.messages": "0",
    "flush.ms": "-1",
    "follower.replication.throttled.replicas": "x",
    "index.interval.bytes": "-1",
    "leader.replication.throttled.replicas": "0:",
    "local.retention.bytes": "-3",
    "local.retention.ms": "-3",
    "max.compaction.lag.ms": "0",
    "max.message.bytes": "-1",
    "message.downconversion.enable": "no",
    "message.format.version": "two",
    "message.timestamp.after.max.ms": "-1",
    "message.timestamp.before.max.ms": "-1",
    "message.timestamp.difference.max.ms": "-1",
    "message.timestamp.type": "createtime",
    "min.cleanable.dirty.ratio": "1.1",
    "min.compaction.lag.ms": "-1",
    "min.insync.replicas": "0",
    "preallocate": "1",
    "remote.log.copy.disable": "x",
    "remote.log.delete.on.disable": "x",
    "remote.storage.enable": "x",
    "retention.bytes": "a lot",
    "retention.granularity": "batch",
    "retention.ms": "-2",
    "segment.bytes": "13",
    "segment.index.bytes": "3",
    "segment.jitter.ms": "-1",
    "segment.ms": "0",
    "unclean.leader.election.enable": "",
}


def test_the_bad_values_below_cover_the_table() -> None:
    assert BAD.keys() == TOPIC_SETTINGS.keys()


@pytest.mark.parametrize(("name", "text"), BAD.items())
def test_a_bad_value_is_refused_with_key_and_value(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(f'{name}={text}: must ')}") as caught:
        TopicConfig.resolve(BrokerConfig(), {name: text})
    assert (caught.value.key, caught.value.value) == (name, text)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^log\.segment\.bytes=1: unknown topic config name"):
        TopicConfig.resolve(BrokerConfig(), {"log.segment.bytes": "1"})


def test_compaction_lags_must_be_in_order() -> None:
    with pytest.raises(ConfigError, match=r"^min\.compaction\.lag\.ms=6: .*max\.compaction\.lag\.ms \(5\)"):
        TopicConfig.resolve(BrokerConfig(), {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})
