"""IncrementalAlterConfigs in every version: what changes, what is refused, and effects."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from pybroker.api.configs import config_resources
from pybroker.metadata.config_changes import SETTINGS_MAX, SETTINGS_SIZE_MAX
from pybroker.metadata.entries import configs_key, encode_configs
from pybroker.metadata.image import ConfigResource
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import alter_configs
from pybroker.protocol.messages.alter_configs import AlterConfigsRequest
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from testing.scenes.api.records import batch_of_values
from testing.scenes.api.whole import Whole
from tests.api.configs import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    INCREMENTAL_VERSIONS,
    LOGGER,
    METRICS,
    SET,
    SUBTRACT,
    TOPIC,
    change,
    described,
    replace,
)


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


async def test_settings_of_groups_and_client_metrics(tmp_path: Path) -> None:
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
