from __future__ import annotations

import re
from typing import get_type_hints

import pytest
from pydantic import ValidationError

from pybroker.config.broker import BrokerConfig
from pybroker.config.setting import ConfigError, Kind, Setting
from pybroker.config.table import BROKER_SETTINGS, SECTIONS
from pybroker.model import BrokerId

IDS = {"broker.id", "node.id"}
"""Settings whose type is narrower than their kind."""

TYPES: dict[Kind, object] = {
    Kind.BOOLEAN: bool,
    Kind.SHORT: int,
    Kind.INT: int,
    Kind.LONG: int,
    Kind.DOUBLE: float,
    Kind.STRING: str,
    Kind.CLASS: str,
    Kind.PASSWORD: str,
    Kind.LIST: tuple[str, ...],
}


def test_the_class_has_the_tables_attributes_and_types() -> None:
    hints = get_type_hints(BrokerConfig)
    declared = {name: hints[name] for name in BrokerConfig.model_fields if name not in ("origins", "unread")}
    expected: dict[str, object] = {}
    for setting in BROKER_SETTINGS.values():
        plain = BrokerId if setting.name in IDS else TYPES[setting.kind]
        is_nullable = setting.default is None and setting.name != "log.dirs"  # which is filled in from log.dir
        expected[setting.attribute] = plain | None if is_nullable else plain  # type: ignore[operator]  # types at run time
    assert declared == expected


def test_no_name_is_in_two_sections() -> None:
    assert len(BROKER_SETTINGS) == sum(len(settings) for _, settings in SECTIONS)


def test_defaults() -> None:
    config = BrokerConfig()
    for setting in BROKER_SETTINGS.values():
        if setting.name not in ("log.dirs", "broker.id"):
            assert getattr(config, setting.attribute) == setting.default, setting.name
    assert config.log_dirs == ("pybroker-data",)
    assert config.origins == config.unread == {}
    assert [str(endpoint) for endpoint in config.endpoints] == ["PLAINTEXT://127.0.0.1:9092"]


def test_it_is_immutable_and_knows_no_other_names() -> None:
    with pytest.raises(ValidationError):
        BrokerConfig().num_partitions = 5
    with pytest.raises(ValidationError):
        BrokerConfig(num_partition=5)


def test_the_environment_counts_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUM_PARTITIONS", "7")
    monkeypatch.setenv("num_partitions", "7")
    assert BrokerConfig().num_partitions == 1


def test_older_names_fill_in_the_newer_ones() -> None:
    assert BrokerConfig(broker_id=0).node_id == 0
    assert BrokerConfig(node_id=4).broker_id == -1
    assert BrokerConfig(log_dir="/a, /b").log_dirs == ("/a", "/b")
    assert BrokerConfig(log_dir="/a", log_dirs=("/b",)).log_dirs == ("/b",)


SOCKET_MAX = 104_857_600
VIRTUAL = {"pybroker_virtual_time": True, "pybroker_admin_listener": "http://127.0.0.1:0"}
TOGETHER = [
    ({"queued_max_request_bytes": SOCKET_MAX}, "queued.max.request.bytes", SOCKET_MAX),
    ({"queued_max_request_bytes": 1}, "queued.max.request.bytes", 1),
    ({"broker_id": 1, "node_id": 2}, "broker.id", 1),
    ({"process_roles": ("controller",)}, "process.roles", "controller"),
    ({"log_dirs": ("/a", "")}, "log.dirs", "/a,"),
    ({"log_dirs": ("/a", "/a")}, "log.dirs", "/a,/a"),
    ({"log_retention_hours": 0}, "log.retention.hours", 0),
    ({"log_retention_ms": 0}, "log.retention.ms", 0),
    (
        {"log_cleaner_min_compaction_lag_ms": 6, "log_cleaner_max_compaction_lag_ms": 5},
        "log.cleaner.min.compaction.lag.ms",
        6,
    ),
    ({"group_coordinator_rebalance_protocols": ("consumer",)}, "group.coordinator.rebalance.protocols", "consumer"),
    ({"group_consumer_assignors": ()}, "group.consumer.assignors", ""),
    ({"group_consumer_session_timeout_ms": 44_999}, "group.consumer.session.timeout.ms", 44_999),
    ({"group_consumer_session_timeout_ms": 60_001}, "group.consumer.session.timeout.ms", 60_001),
    ({"group_consumer_max_session_timeout_ms": 44_999}, "group.consumer.max.session.timeout.ms", 44_999),
    ({"group_consumer_heartbeat_interval_ms": 4_999}, "group.consumer.heartbeat.interval.ms", 4_999),
    ({"group_consumer_min_heartbeat_interval_ms": 15_001}, "group.consumer.max.heartbeat.interval.ms", 15_000),
    (
        {"group_consumer_max_heartbeat_interval_ms": 45_000, "group_consumer_heartbeat_interval_ms": 45_000},
        "group.consumer.heartbeat.interval.ms",
        45_000,
    ),
    ({"group_consumer_migration_policy": "sideways"}, "group.consumer.migration.policy", "sideways"),
    ({"max_connections_per_ip_overrides": "x"}, "max.connections.per.ip.overrides", "x"),
    ({"metrics_listener": "9100"}, "metrics.listener", "9100"),
    ({"metrics_listener": "ftp://:9100"}, "metrics.listener", "ftp://:9100"),
    ({"pybroker_metrics_token": "a b"}, "pybroker.metrics.token", "[hidden]"),
    ({"pybroker_admin_listener": "127.0.0.1:8080"}, "pybroker.admin.listener", "127.0.0.1:8080"),
    ({"pybroker_virtual_time": True}, "pybroker.virtual.time", "true"),
    ({**VIRTUAL, "metadata_store": "etcd:http://127.0.0.1:2379"}, "pybroker.virtual.time", "true"),
    ({**VIRTUAL, "controller_quorum_voters": ("1@a:9093",)}, "pybroker.virtual.time", "true"),
    ({"pybroker_admin_listener": "http://127.0.0.1"}, "pybroker.admin.listener", "http://127.0.0.1"),
    ({"pybroker_admin_listener": "http://:8080"}, "pybroker.admin.listener", "http://:8080"),
    ({"pybroker_admin_listener": "http://192.0.2.1:8080"}, "pybroker.admin.listener", "http://192.0.2.1:8080"),
    ({"pybroker_admin_listener": "http://example.org:8080"}, "pybroker.admin.listener", "http://example.org:8080"),
    ({"pybroker_admin_listener": "http://:8080", "pybroker_admin_token": "a b"}, "pybroker.admin.token", "[hidden]"),
    ({"listeners": "TCP://a:1"}, "listeners", "TCP://a:1"),
    ({"advertised_listeners": "X://a:1"}, "advertised.listeners", "X://a:1"),
    ({"listener_security_protocol_map": "A"}, "listener.security.protocol.map", "A"),
    ({"inter_broker_listener_name": "X"}, "inter.broker.listener.name", "X"),
]


@pytest.mark.parametrize(("values", "key", "value"), TOGETHER)
def test_values_that_do_not_go_together(values: dict[str, object], key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(f'{key}={value}: ')}") as caught:
        BrokerConfig(**values)
    assert caught.value.key == key


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "[::1]", "localhost", "LOCALHOST"])
def test_the_admin_listener_needs_no_token_where_only_the_machine_reaches_it(host: str) -> None:
    config = BrokerConfig(pybroker_admin_listener=f"http://{host}:8080")
    assert config.admin_address == (host.strip("[]"), 8080, False)


def test_the_admin_listener_is_anywhere_with_a_token_and_off_by_default() -> None:
    assert BrokerConfig().admin_address is None
    config = BrokerConfig(pybroker_admin_listener="http://:8080/", pybroker_admin_token="t0ken-._~+/=")
    assert config.admin_address == ("", 8080, False)
    config = BrokerConfig(pybroker_admin_listener="https://:8080/", pybroker_admin_token="t0ken")
    assert config.admin_address == ("", 8080, True)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", None),
        ("127.0.0.1:9404", ("127.0.0.1", 9404, False)),
        ("http://:9404", ("", 9404, False)),
        ("https://[::1]:9404/", ("::1", 9404, True)),
    ],
)
def test_the_metrics_listener_has_tls_behind_https(text: str, address: tuple[str, int, bool] | None) -> None:
    assert BrokerConfig(metrics_listener=text).metrics_address == address


def test_the_memory_bound_is_off_or_above_the_largest_request() -> None:
    for bound in (-1, 0, SOCKET_MAX + 1):
        assert BrokerConfig(queued_max_request_bytes=bound).queued_max_request_bytes == bound


def bad_values(setting: Setting) -> list[str]:
    """Return texts that the row's check must refuse, of those that bounds and lists of names are usually wrong about."""
    candidates = {
        Kind.BOOLEAN: ["maybe"],
        Kind.LIST: ["no-such-name"],
        Kind.STRING: ["no-such-name", "back\\slash", *([] if setting.default is None else [""])],  # an empty text is a null
        Kind.PASSWORD: ["back\\slash"],
    }.get(setting.kind, ["x", "-1000000", "0", "-2", "-1", "99999"])
    if setting.check is None:
        return [text for text in candidates if text in ("maybe", "x")]
    return [text for text in candidates if text in ("maybe", "x") or not setting.check.accepts(value_of(setting, text))]


def value_of(setting: Setting, text: str) -> object:
    if setting.kind is Kind.LIST:
        return (text,)
    return text if setting.kind in (Kind.STRING, Kind.PASSWORD) else float(text)


CHECKED = [
    s for s in BROKER_SETTINGS.values() if s.check is not None or s.kind in (Kind.BOOLEAN, Kind.INT, Kind.LONG, Kind.DOUBLE)
]


@pytest.mark.parametrize("setting", CHECKED, ids=lambda setting: setting.name)
def test_every_checked_row_refuses_something_naming_key_and_value(setting: Setting) -> None:
    texts = bad_values(setting)
    assert texts
    for text in texts:
        with pytest.raises(ConfigError, match=f"^{re.escape(f'{setting.name}={setting.shown(text)}: must ')}"):
            setting.parse(text)


@pytest.mark.parametrize(
    ("attribute", "value"), [("num_partitions", 0), ("compression_type", "brotli"), ("socket_listen_backlog_size", 0)]
)
def test_the_checks_hold_for_arguments_too(attribute: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(attribute.replace('_', '.'))}={value}: must"):
        BrokerConfig(**{attribute: value})
