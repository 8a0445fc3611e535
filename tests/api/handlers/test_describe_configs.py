"""DescribeConfigs in every version: which settings a resource has, from where they come, and what is secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.config.topic_settings import TOPIC_SETTINGS
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from testing.scenes.api.whole import Whole
from tests.api.configs import BROKER, DESCRIBE_VERSIONS, GROUP, LOGGER, METRICS, SET, TOPIC, change, describe, described


@pytest.mark.parametrize("version", DESCRIBE_VERSIONS)
async def test_a_topic_is_described_in_every_version(tmp_path: Path, version: int) -> None:
    whole = await Whole(tmp_path, log_segment_bytes=5000, origins={"log.segment.bytes": "file"}).start()
    await whole.create("t", retention_ms="77")
    result = await describe(whole, TOPIC, "t", version=version)
    configs = {config.name: config for config in result.configs}
    assert configs.keys() == TOPIC_SETTINGS.keys()
    assert [config.name for config in result.configs] == sorted(configs)
    retention, segment, codec = (configs[name] for name in ("retention.ms", "segment.bytes", "compression.type"))
    assert [config.value for config in (retention, segment, codec)] == ["77", "5000", "producer"]
    assert not any(config.read_only or config.is_sensitive for config in configs.values())
    if version == 0:
        assert [config.is_default for config in (retention, segment, codec)] == [False, False, True]
        return
    assert [config.config_source for config in (retention, segment, codec)] == [1, 4, 5]
    assert [(one.name, one.value, one.source) for one in segment.synonyms] == [
        ("log.segment.bytes", "5000", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert [(one.name, one.source) for one in retention.synonyms] == [("retention.ms", 1)]
    assert retention.config_type == (5 if version >= 3 else 0)
    assert (retention.documentation or None) == (TOPIC_SETTINGS["retention.ms"].doc if version >= 3 else None)


async def test_a_resource_that_is_named_again_is_described_once(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    named: list[tuple[int, str, list[str] | None]] = [
        (BROKER, "1", None),
        (BROKER, "01", None),
        (LOGGER, "1", []),
        (BROKER, "", None),
        (TOPIC, "nope", None),
    ]
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for kind, name, keys in [*named * 100, *[(BROKER, "1", [key]) for key in ("log.dirs", "node.id", "nope")]]
    ]
    results = (await whole.ask(DescribeConfigsRequest(resources=resources, include_documentation=True), 4)).results
    kinds = [(result.resource_type, result.resource_name) for result in results]
    assert kinds == [(BROKER, "1"), (LOGGER, "1"), (BROKER, ""), (TOPIC, "nope"), *[(BROKER, "1")] * 3]
    assert [[config.name for config in result.configs] for result in results[4:]] == [["log.dirs"], ["node.id"], []]


async def test_what_cannot_be_described(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    for kind, name, code in (
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (METRICS, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ):
        result = await describe(whole, kind, name)
        assert (result.error_code, result.configs) == (code, []), (kind, name)


async def test_unknown_settings_of_a_broker_are_kept_secret(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    assert await change(whole, BROKER, "1", ("my.plugin.key", SET, "secret")) == 0
    (config,) = (await describe(whole, BROKER, "1", "my.plugin.key")).configs
    assert (config.value, config.is_sensitive, config.config_source, config.config_type) == (None, True, 2, 0)
    assert [one.value for one in config.synonyms] == [None]


UNREAD = {
    "inter.broker.protocol.version": "3.7",
    "security.providers": "a.Provider",
    "ssl.keystore.password": "hidden words",
    "sasl.jaas.config": "hidden words",
    "listener.name.one.ssl.keystore.password": "hidden words",
    "listener.name.one.plain.sasl.jaas.config": "hidden words",
    "listener.name.one.ssl.keystore.type": "PEM",
    "my.plugin.key": "hidden words",
}


async def test_a_broker_shows_what_it_accepts_unread_as_kafka_does(tmp_path: Path) -> None:
    """Assert that the broker's version, which some tools take from a property of Kafka 3.9, is shown, and that no secret is."""
    name = "inter.broker.protocol.version"
    whole = await Whole(tmp_path / "default").start()
    assert await described(whole, BROKER, "1", name) == ("3.9-IV0", 5, [(name, "3.9-IV0", 5)])
    assert await described(whole, BROKER, "1", "sasl.login.class") == (None, 5, [])
    whole = await Whole(tmp_path / "set", unread=UNREAD).start()
    assert await described(whole, BROKER, "1", name) == ("3.7", 4, [(name, "3.7", 4), (name, "3.9-IV0", 5)])
    configs = {config.name: config for config in (await describe(whole, BROKER, "1")).configs}
    assert [*configs] == sorted(configs)
    assert all(configs[name].config_source == 4 and configs[name].read_only for name in UNREAD)
    assert {name: configs[name].value for name in UNREAD if not configs[name].is_sensitive} == {
        "inter.broker.protocol.version": "3.7", "security.providers": "a.Provider", "listener.name.one.ssl.keystore.type": "PEM",
    }  # fmt: skip
    listener_type = configs["listener.name.one.ssl.keystore.type"]
    assert [(one.name, one.value, one.source) for one in listener_type.synonyms] == [
        ("listener.name.one.ssl.keystore.type", "PEM", 4), ("ssl.keystore.type", "JKS", 5),
    ]  # fmt: skip
    assert not any("hidden words" in str(config) for config in configs.values())
    assert configs["ssl.enabled.protocols"].value == "TLSv1.2,TLSv1.3"
    assert configs["security.providers"].config_type == 2


async def test_read_only_settings_are_reported_as_read_only(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    names = ("listeners", "log.retention.ms", "message.max.bytes", "num.partitions")
    configs = (await describe(whole, BROKER, "1", *names)).configs
    assert [(config.name, config.read_only) for config in configs] == list(zip(names, (True, False, False, True), strict=True))
