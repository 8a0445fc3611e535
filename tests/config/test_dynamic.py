"""Settings in force are layered, checked one by one and together; those of groups stay within the broker's bounds."""

from __future__ import annotations

import re

import pytest

from pybroker.config import dynamic
from pybroker.config.broker import BrokerConfig
from pybroker.config.dynamic import CLIENT_PATTERNS_MAX, check_client_metrics_configs, in_force
from pybroker.config.group_configs import check_group_configs
from pybroker.config.setting import ConfigError

STATIC = BrokerConfig(node_id=3, log_segment_bytes=500, origins={"log.segment.bytes": "file"}, unread={"ssl.protocol": "TLSv1.3"})


def test_layers() -> None:
    config = in_force(STATIC, {"log.segment.bytes": "600", "log.retention.ms": "7"}, {"log.segment.bytes": "700"})
    assert (config.log_segment_bytes, config.log_retention_ms, config.node_id) == (700, 7, 3)
    assert (config.origins, config.unread) == (STATIC.origins, STATIC.unread)
    assert in_force(STATIC, {}, {}) is STATIC


def test_what_no_row_knows_and_what_is_null_change_nothing() -> None:
    assert in_force(STATIC, {"my.own": "x", "log.retention.ms": ""}, {"leader.replication.throttled.rate": "5"}) is STATIC


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("num.partitions", "3"),
        ("log.segment.bytes", "13"),
        ("log.segment.bytes", "many"),
        ("log.retention.ms", "0"),
        ("max.connections.per.ip.overrides", "nonsense"),
        ("leader.replication.throttled.rate", "-1"),
    ],
)
def test_bad_values_are_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        in_force(STATIC, {name: text}, {})
    assert raised.value.key == name


def test_values_that_do_not_go_together() -> None:
    with pytest.raises(ConfigError):
        in_force(STATIC, {"log.roll.ms": "5"}, {"log.roll.jitter.ms": "6"})


@pytest.mark.parametrize(
    "values",
    [
        {"what": "1"},
        {"consumer.session.timeout.ms": "44999"},
        {"consumer.session.timeout.ms": "60001"},
        {"consumer.heartbeat.interval.ms": "15001"},
        {"consumer.heartbeat.interval.ms": "x"},
        {"consumer.assignment.interval.ms": "15001"},
        {"share.session.timeout.ms": "60001"},
        {"share.heartbeat.interval.ms": "4999"},
        {"share.record.lock.duration.ms": "14999"},
        {"share.auto.offset.reset": "by_duration:P"},
        {"streams.num.standby.replicas": "3"},
    ],
)
def test_bad_settings_of_groups(values: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        check_group_configs(STATIC, values)


def refusal_of_match(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        check_client_metrics_configs({"match": text})
    return raised.value


@pytest.mark.parametrize(
    "pattern",
    ["([", "a{99999999999999999999}", "(" * 1_900, "(?L)a", r"\U00110000"],
    ids=["a set without an end", "a number too large", "nested too deeply", "no flag of texts", "no character"],
)
def test_a_client_pattern_that_cannot_be_parsed_is_refused(pattern: str) -> None:
    message = refusal_of_match(f"client_id={pattern}").client_message
    assert message == f"Illegal client matching pattern: client_id={pattern}"


def test_long_client_patterns_are_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = "client_id=" + "a" * (CLIENT_PATTERNS_MAX - 10)
    check_client_metrics_configs({"match": longest})
    monkeypatch.setattr(dynamic, "_is_client_pattern", lambda _: pytest.fail("it was read"))
    message = refusal_of_match(longest + "b").client_message
    assert message == (
        f"Invalid value {longest[:100]}... for configuration match: must have at most 2,000 characters, and has 2,001"
    )


def test_client_patterns_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []  # a set of all characters, without regard to case, takes 6 ms
    pattern = r"(?i)" + r"[\x01-\uffff]" * 100
    with monkeypatch.context() as patched:
        patched.setattr(re, "compile", compiled.append)
        check_client_metrics_configs({"match": f"client_id={pattern}, client_software_name=a.*"})
    assert compiled == []


def test_good_settings_of_groups_and_client_metrics() -> None:
    check_group_configs(STATIC, {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "15000"})
    check_client_metrics_configs({"interval.ms": "100", "metrics": "a,b", "match": ""})
    with pytest.raises(ConfigError):
        check_client_metrics_configs({"interval.ms": "99"})


def test_a_login_module_of_a_listener_has_no_row() -> None:
    static = BrokerConfig()
    for name in ("listener.name.a.sasl.jaas.config", "listener.name.a.plain.sasl.jaas.config"):
        assert in_force(static, {}, {name: "x"}) is static
