"""The APIs of settings: forms and codes in every version, and effects."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from pybroker.api.configs import config_resources
from pybroker.config.topic_settings import TOPIC_SETTINGS
from pybroker.metadata.config_changes import SETTINGS_MAX, SETTINGS_SIZE_MAX
from pybroker.metadata.entries import configs_key, encode_configs
from pybroker.metadata.image import ConfigResource
from pybroker.protocol.codec import message_versions
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import alter_configs, incremental_alter_configs
from pybroker.protocol.messages.alter_configs import AlterConfigsRequest
from pybroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pybroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from pybroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.sharing import work as sharing
from testing.scenes.api.records import batch_of_values
from testing.scenes.api.whole import Whole

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
DESCRIBE_VERSIONS, ALTER_VERSIONS, INCREMENTAL_VERSIONS = (range(message_versions(key)[1] + 1) for key in (32, 33, 44))


async def describe(whole: Whole, kind: int, name: str, *keys: str, version: int = 4) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    request = DescribeConfigsRequest(resources=[resource])
    if version >= 1:
        request.include_synonyms = True
    if version >= 3:
        request.include_documentation = True
    (result,) = (await whole.ask(request, version)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def described(whole: Whole, kind: int, name: str, key: str) -> tuple[str | None, int, list[tuple[str, str | None, int]]]:
    """Return the value, source and synonyms of a setting."""
    result = await describe(whole, kind, name, key)
    assert result.error_code == 0
    (config,) = result.configs
    return config.value, config.config_source, [(one.name, one.value, one.source) for one in config.synonyms]


async def change(
    whole: Whole, kind: int, name: str, *edits: tuple[str, int, str | None], version: int = 1, validate_only: bool = False
) -> Any:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in edits
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = (await whole.ask(request, version)).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code


async def replace(
    whole: Whole, kind: int, name: str, version: int = 2, *, validate_only: bool = False, **values: str | None
) -> Any:
    configs = [alter_configs.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in values.items()]
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    (result,) = (await whole.ask(AlterConfigsRequest(resources=[resource], validate_only=validate_only), version)).responses
    return result.error_code


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


async def test_resources_are_described_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "SLICE_S", 0.0)
    whole = await Whole(tmp_path).start()
    resources = [
        DescribeConfigsResource(resource_type=GROUP, resource_name=f"group-{number}", configuration_keys=None)
        for number in range(5)
    ]
    resources[4].configuration_keys = [*(f"key-{number}" for number in range(2_990)), "consumer.session.timeout.ms"]
    request = DescribeConfigsRequest(resources=resources)
    sent = whole.send(request, 4)
    for _ in range(6):
        await asyncio.sleep(0)
        assert not sent.done(), "each resource is a step, and so are some of the keys"
    results = whole.read(await sent, request, 4).results
    assert [len(result.configs) > 1 for result in results] == [True, True, True, True, False]
    assert [config.name for config in results[4].configs] == ["consumer.session.timeout.ms"]


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


@pytest.mark.parametrize("version", INCREMENTAL_VERSIONS)
async def test_single_settings_of_a_topic_change(tmp_path: Path, version: int) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t", retention_ms="77")

    def own() -> dict[str, str]:
        return dict(whole.controller.image.topics["t"].configs)

    edits = (("cleanup.policy", APPEND, "compact"), ("segment.ms", SET, "5"), ("retention.ms", DELETE, None))
    assert await change(whole, TOPIC, "t", *edits, version=version, validate_only=True) == 0
    assert own() == {"retention.ms": "77"}
    assert await change(whole, TOPIC, "t", *edits, version=version) == 0
    assert own() == {"cleanup.policy": "delete,compact", "segment.ms": "5"}
    assert await change(whole, TOPIC, "t", ("cleanup.policy", APPEND, "compact,delete"), version=version) == 0
    assert await change(whole, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete,other"), version=version) == 0
    assert own() == {"cleanup.policy": "compact", "segment.ms": "5"}


@pytest.mark.parametrize(
    ("kind", "name", "edit", "code"),
    [
        (TOPIC, "t", ("foo", SET, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", SET, "abc"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", ("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "nope", ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (TOPIC, "a b", ("retention.ms", SET, "1"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "1", ("num.partitions", SET, "2"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("listeners", SET, "PLAINTEXT://:1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "", ("log.retention.ms", SET, "x"), ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ("log.roll.jitter.ms", SET, "-1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "7", ("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (LOGGER, "1", ("root", SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        (LOGGER, "1", ("no.such.logger", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (LOGGER, "1", ("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        (LOGGER, "1", ("root", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "1"), ErrorCode.INVALID_CONFIG),
        (GROUP, "g", ("foo", SET, "1"), ErrorCode.INVALID_CONFIG),
        (GROUP, "", ("consumer.session.timeout.ms", SET, "45000"), ErrorCode.INVALID_REQUEST),
        (METRICS, "m", ("interval.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (METRICS, "m", ("match", SET, "name=a.*"), ErrorCode.INVALID_CONFIG),
        (METRICS, "m", ("match", SET, "client_id=(["), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("remote.storage.enable", SET, "true"), ErrorCode.INVALID_CONFIG),
        (METRICS, "m", ("foo", SET, "1"), ErrorCode.INVALID_REQUEST),
        (99, "x", ("foo", SET, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_refused_changes_change_nothing(
    tmp_path: Path, kind: int, name: str, edit: tuple[str, int, str | None], code: ErrorCode
) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t")
    before, level = whole.controller.image, logging.root.level
    good = {TOPIC: "segment.ms", BROKER: "log.segment.bytes", LOGGER: "root", GROUP: "consumer.heartbeat.interval.ms"}
    edits = [edit, (good[kind], SET, "INFO" if kind == LOGGER else "5000")] if good.get(kind, edit[0]) != edit[0] else [edit]
    assert await change(whole, kind, name, *edits) == code
    assert whole.controller.image is before
    assert logging.root.level == level


async def test_duplicates(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t")
    twice = ("retention.ms", SET, "1")
    assert await change(whole, TOPIC, "t", twice, twice) == ErrorCode.INVALID_REQUEST
    resource = alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[])
    responses = (await whole.ask(AlterConfigsRequest(resources=[resource, resource]), 2)).responses
    assert [response.error_code for response in responses] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize("version", ALTER_VERSIONS)
async def test_all_settings_are_replaced(tmp_path: Path, version: int) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t", retention_ms="77", segment_ms="5")
    assert await replace(whole, TOPIC, "t", version, validate_only=True, segment_bytes="100") == 0
    assert await replace(whole, TOPIC, "t", version, segment_bytes=None) == ErrorCode.INVALID_REQUEST
    assert await replace(whole, LOGGER, "1", version, root="INFO") == ErrorCode.INVALID_REQUEST
    assert dict(whole.controller.image.topics["t"].configs) == {"retention.ms": "77", "segment.ms": "5"}
    assert await replace(whole, TOPIC, "t", version, segment_bytes="100", segment_ms="5") == 0
    assert dict(whole.controller.image.topics["t"].configs) == {"segment.bytes": "100", "segment.ms": "5"}
    log = next(iter(whole.logs.all_logs()))
    assert (log.config.segment_bytes, log.config.retention_ms) == (100, 604_800_000)


async def test_settings_of_a_broker_are_layered(tmp_path: Path) -> None:
    whole = await Whole(tmp_path, log_retention_ms=1000, origins={"log.retention.ms": "file"}).start()
    await whole.create("t")
    await whole.create("own", retention_ms="5")
    log = next(log for log in whole.logs.all_logs() if log.topic_partition.topic == "t")
    name = "log.retention.ms"
    static = [(name, "1000", 4), ("log.retention.hours", "168", 5)]
    assert await described(whole, BROKER, "1", name) == ("1000", 4, static)
    assert await change(whole, BROKER, "", (name, SET, "2000")) == 0
    of_all = [(name, "2000", 3), *static]
    assert await described(whole, BROKER, "1", name) == ("2000", 3, of_all)
    assert await described(whole, BROKER, "", name) == ("2000", 3, [(name, "2000", 3)])
    assert log.config.retention_ms == 2000
    assert await change(whole, BROKER, "1", (name, SET, "3000")) == 0
    assert await described(whole, TOPIC, "t", "retention.ms") == ("3000", 2, [(name, "3000", 2), *of_all])
    assert await described(whole, TOPIC, "own", "retention.ms") == (
        "5",
        1,
        [("retention.ms", "5", 1), (name, "3000", 2), *of_all],
    )
    assert log.config.retention_ms == 3000
    assert await change(whole, BROKER, "1", (name, DELETE, None)) == 0
    assert log.config.retention_ms == 2000
    assert await replace(whole, BROKER, "") == 0
    assert await described(whole, BROKER, "1", name) == ("1000", 4, static)
    assert log.config.retention_ms == 1000
    assert not whole.controller.image.configs


async def test_a_dynamic_limit_counts_for_the_next_request(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t")

    async def produce() -> int:
        data = PartitionProduceData(index=0, records=batch_of_values(b"x" * 500))
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
        (topic,) = (await whole.ask(request, 9)).responses
        code: int = topic.partition_responses[0].error_code
        return code

    assert await produce() == 0
    assert await change(whole, BROKER, "1", ("message.max.bytes", SET, "100")) == 0
    assert await produce() == ErrorCode.MESSAGE_TOO_LARGE
    assert await change(whole, TOPIC, "t", ("max.message.bytes", SET, "1000")) == 0
    assert await produce() == 0


async def test_a_default_that_no_topic_could_live_with_is_refused(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t", min_compaction_lag_ms="5000")
    edit = ("log.cleaner.max.compaction.lag.ms", SET, "100")
    assert await change(whole, BROKER, "", edit) == ErrorCode.INVALID_REQUEST


async def test_unknown_settings_of_a_broker_are_kept_secret(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    assert await change(whole, BROKER, "1", ("my.plugin.key", SET, "secret")) == 0
    (config,) = (await describe(whole, BROKER, "1", "my.plugin.key")).configs
    assert (config.value, config.is_sensitive, config.config_source, config.config_type) == (None, True, 2, 0)
    assert [one.value for one in config.synonyms] == [None]


UNREAD = {
    "inter.broker.protocol.version": "3.7",
    "ssl.keystore.location": "/keys",
    "ssl.keystore.password": "hidden words",
    "sasl.jaas.config": "hidden words",
    "listener.name.one.ssl.keystore.password": "hidden words",
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
        "inter.broker.protocol.version": "3.7", "ssl.keystore.location": "/keys",
    }  # fmt: skip
    assert not any("hidden words" in str(config) for config in configs.values())
    assert configs["ssl.enabled.protocols"].value == "TLSv1.2,TLSv1.3"
    assert configs["ssl.keystore.location"].config_type == 2


async def test_read_only_settings_are_reported_as_read_only(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    names = ("listeners", "log.retention.ms", "message.max.bytes", "num.partitions")
    configs = (await describe(whole, BROKER, "1", *names)).configs
    assert [(config.name, config.read_only) for config in configs] == list(zip(names, (True, False, False, True), strict=True))


async def test_levels_of_loggers(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    name = "pybroker.tests.levels"
    logger = logging.getLogger(name)
    assert await change(whole, LOGGER, "1", (name, SET, "ERROR"), validate_only=True) == 0
    assert logger.level == logging.NOTSET
    assert await change(whole, LOGGER, "1", (name, SET, "ERROR")) == 0
    assert await described(whole, LOGGER, "1", name) == ("ERROR", 6, [])
    assert await change(whole, LOGGER, "1", (name, DELETE, None)) == 0
    assert logger.level == logging.NOTSET


async def test_groups_client_metrics_and_what_is_listed(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t")
    name = "consumer.session.timeout.ms"
    of_broker = ("group.consumer.session.timeout.ms", "45000", 5)
    assert await described(whole, GROUP, "g/1", name) == ("45000", 5, [of_broker])
    assert await described(whole, GROUP, "g/1", "share.isolation.level") == (
        "read_uncommitted", 5, [("share.isolation.level", "read_uncommitted", 5)],
    )  # fmt: skip
    assert await change(whole, GROUP, "g/1", (name, SET, "50000")) == 0
    assert await described(whole, GROUP, "g/1", name) == ("50000", 8, [(name, "50000", 8), of_broker])
    assert await change(whole, GROUP, "g/1", ("share.auto.offset.reset", SET, "by_duration:PT5M")) == 0
    assert await described(whole, GROUP, "g/1", "share.auto.offset.reset") == (
        "by_duration:PT5M", 8, [("share.auto.offset.reset", "by_duration:PT5M", 8), ("share.auto.offset.reset", "latest", 5)],
    )  # fmt: skip
    assert await change(whole, METRICS, "m", ("metrics", APPEND, "a.b"), ("interval.ms", SET, "1000")) == 0
    assert await described(whole, METRICS, "m", "metrics") == ("a.b", 7, [])

    async def listed(version: int, *types: int) -> list[tuple[str, int]]:
        request = ListConfigResourcesRequest() if version == 0 else ListConfigResourcesRequest(resource_types=list(types))
        response = await whole.ask(request, version)
        assert response.error_code == 0
        return [(one.resource_name, one.resource_type) for one in response.config_resources]

    assert await listed(0) == [("m", METRICS)]
    assert await listed(1) == [("t", TOPIC), ("1", BROKER), ("1", LOGGER), ("m", METRICS), ("g/1", GROUP)]
    assert await listed(1, GROUP, GROUP) == [("g/1", GROUP)]
    refused = await whole.ask(ListConfigResourcesRequest(resource_types=[1]), 1)
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_resource_has_a_bounded_number_of_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await Whole(tmp_path).start()
    edits = [(f"key-{number:04}", SET, "x") for number in range(SETTINGS_MAX + 1)]
    values: dict[str, Any] = {key: value for key, _, value in edits}
    for kind, name in ((BROKER, ""), (TOPIC, "t"), (LOGGER, "1"), (GROUP, "g")):
        with monkeypatch.context() as patched:
            patched.setattr(config_resources, "Edit", None)  # no edit is looked at
            assert await change(whole, kind, name, *edits) == ErrorCode.POLICY_VIOLATION
            assert await replace(whole, kind, name, **values) == ErrorCode.POLICY_VIOLATION
    assert await change(whole, BROKER, "", *edits[1:]) == 0
    assert await change(whole, BROKER, "", edits[0]) == ErrorCode.POLICY_VIOLATION
    assert len(whole.controller.image.configs_of("broker", "")) == SETTINGS_MAX
    assert await change(whole, BROKER, "", edits[0], (edits[1][0], DELETE, None)) == 0


async def test_the_settings_of_a_resource_have_a_bounded_size(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    text = "x" * (SETTINGS_SIZE_MAX // 8 - 5)
    edits = [(f"key-{number}", SET, text) for number in range(8)]
    assert await change(whole, BROKER, "1", *edits) == 0
    assert await change(whole, BROKER, "1", ("a", SET, "")) == ErrorCode.POLICY_VIOLATION
    assert await change(whole, BROKER, "1", ("a", SET, ""), ("key-0", SET, "y")) == 0


async def test_what_an_older_version_stored_can_become_less(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    many = {f"key-{number}": "x" * 300 for number in range(SETTINGS_MAX + 9)}
    await whole.controller._store.commit(puts={configs_key(ConfigResource("broker", "")): encode_configs(many)})
    assert await change(whole, BROKER, "", ("key-0", DELETE, None)) == 0
    assert await change(whole, BROKER, "", ("other", SET, "x")) == ErrorCode.POLICY_VIOLATION
    assert await replace(whole, BROKER, "") == 0
    assert not whole.controller.image.configs


async def test_a_broker_is_the_same_resource_however_its_number_is_written(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    resources = [
        alter_configs.AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=[]) for name in ("1", "01", "")
    ]
    responses = (await whole.ask(AlterConfigsRequest(resources=resources), 2)).responses
    assert [one.error_code for one in responses] == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, 0]
