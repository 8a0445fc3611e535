"""ConsumerGroupHeartbeat in each version; tests/scenarios describes the behaviour of groups."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import message_versions
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.api_versions import ApiVersionsRequest
from pybroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from pybroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pybroker.protocol.messages.list_groups import ListGroupsRequest
from testing.scenes.api.groups import GROUP, broker, join_request, member, versions
from testing.scenes.api.whole import Whole
from tests.coordinator.consumer.consumer_state import group_of, state_of

HEARTBEAT_VERSIONS = versions(ApiKey.CONSUMER_GROUP_HEARTBEAT)
GROUP_TYPE = 32


def joining(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    content: dict[str, Any] = {
        "group_id": GROUP, "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 30_000,
        "subscribed_topic_names": ["t"], "topic_partitions": [],
    }  # fmt: skip
    return ConsumerGroupHeartbeatRequest(**{**content, **fields})


def beating(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(**{"group_id": GROUP, "member_id": "m", "member_epoch": 1, **fields})


@pytest.mark.parametrize("version", HEARTBEAT_VERSIONS)
async def test_a_member_lives(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    topic_id = whole.controller.image.topics["t"].topic_id
    joined = await whole.ask(joining(), version)
    assert (joined.error_code, joined.error_message, joined.member_id, joined.member_epoch) == (0, None, "m", 1)
    assert joined.heartbeat_interval_ms == whole.config.group_consumer_heartbeat_interval_ms
    (given,) = joined.assignment.topic_partitions
    assert (given.topic_id, given.partitions) == (topic_id, [0, 1])
    quiet = await whole.ask(beating(), version)
    assert (quiet.error_code, quiet.member_epoch, quiet.assignment) == (0, 1, None)
    owned = [TopicPartitions(topic_id=topic_id, partitions=[0, 1])]
    full = await whole.ask(beating(rebalance_timeout_ms=30_000, subscribed_topic_names=["t"], topic_partitions=owned), version)
    assert (full.error_code, full.assignment) == (0, joined.assignment)
    left = await whole.ask(beating(member_epoch=-1), version)
    assert (left.error_code, left.member_id, left.member_epoch) == (0, "m", -1)


async def test_before_version_1_the_broker_chooses_the_id(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    joined = await whole.ask(joining(member_id=""), 0)
    assert joined.error_code == 0
    assert joined.member_id
    assert (await whole.ask(beating(member_id=joined.member_id), 0)).error_code == 0
    assert (await whole.ask(joining(member_id=""), 1)).error_code == ErrorCode.INVALID_REQUEST


INVALID = {
    "no group": joining(group_id=""),
    "a blank group": joining(group_id=" "),
    "no member when it leaves": beating(member_id="", member_epoch=-1),
    "no member later": beating(member_id=""),
    "an empty instance": joining(instance_id=""),
    "an empty rack": joining(rack_id=" "),
    "a bad epoch": beating(member_epoch=-3),
    "leaves for a while without an instance": beating(member_epoch=-2),
    "no rebalance timeout": joining(rebalance_timeout_ms=-1),
    "joins with partitions": joining(topic_partitions=[TopicPartitions(topic_id=bytes(16), partitions=[0])]),
    "joins without a word on partitions": joining(topic_partitions=None),
    "joins without a subscription": joining(subscribed_topic_names=None),
}
REFUSED = {
    ErrorCode.UNSUPPORTED_ASSIGNOR: joining(server_assignor="mine"),
    ErrorCode.UNKNOWN_MEMBER_ID: beating(member_id="nobody"),
    ErrorCode.FENCED_MEMBER_EPOCH: beating(member_epoch=2),
    ErrorCode.UNRELEASED_INSTANCE_ID: joining(member_id="other", instance_id="i"),
    ErrorCode.FENCED_INSTANCE_ID: beating(member_id="other", instance_id="i"),
    ErrorCode.GROUP_MAX_SIZE_REACHED: joining(member_id="third"),
    ErrorCode.GROUP_ID_NOT_FOUND: beating(group_id="none"),
}


@pytest.mark.parametrize("version", HEARTBEAT_VERSIONS)
async def test_what_is_refused_changes_nothing(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path, group_consumer_max_size=2)
    await whole.ask(joining(member_id="s", instance_id="i"), version)
    await whole.ask(joining(), version)
    for _ in range(2):
        await whole.ask(beating(member_id="s", instance_id="i", topic_partitions=[]), version)
        await whole.ask(beating(member_epoch=2), version)
    whole_epoch = 2
    (before,) = [state_of(group_of(whole, GROUP))]
    for why, request in INVALID.items():
        response = await whole.ask(request, version)
        assert (response.error_code, bool(response.error_message)) == (ErrorCode.INVALID_REQUEST, True), why
        assert (response.member_id, response.member_epoch, response.assignment) == (None, 0, None)
    refused = REFUSED | {
        ErrorCode.FENCED_MEMBER_EPOCH: beating(member_epoch=whole_epoch + 1),
        **({ErrorCode.INVALID_REGULAR_EXPRESSION: beating(member_epoch=2, subscribed_topic_regex="(")} if version else {}),
    }
    for code, request in refused.items():
        response = await whole.ask(request, version)
        assert (response.error_code, bool(response.error_message)) == (code, True)
    for stale in (beating(member_id="s", instance_id="x", member_epoch=2), beating(group_id="none", member_epoch=-1)):
        assert (await whole.ask(stale, version)).error_code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}
    assert state_of(group_of(whole, GROUP)) == before
    assert group_of(whole, "none") is None
    whole.serve()
    assert state_of(group_of(whole, GROUP)) == before


async def test_a_classic_group_with_members_is_no_consumer_group(tmp_path: Path) -> None:
    whole = await broker(tmp_path, group_consumer_migration_policy="Disabled")
    await member(whole)
    for request in (joining(), beating(), beating(member_epoch=-1)):
        response = await whole.ask(request, 1)
        assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
async def test_a_refused_join_leaves_an_empty_consumer_group_as_it_is(
    changed: dict[str, object], code: ErrorCode, tmp_path: Path
) -> None:
    whole = await broker(tmp_path)
    await whole.ask(joining(), 1)
    await whole.ask(beating(member_epoch=-1), 1)
    before = state_of(group_of(whole, GROUP))
    request = join_request()
    for name, value in changed.items():
        setattr(request, name, value)
    assert (await whole.ask(request, 9)).error_code == code
    assert state_of(group_of(whole, GROUP)) == before
    assert (await whole.ask(join_request(), 3)).error_code == 0
    (listed,) = (await whole.ask(ListGroupsRequest(), 5)).groups
    assert listed.group_type == "classic"


async def test_others_are_served_while_an_expression_is_matched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybroker.sharing.work.SLICE_S", 0.0)
    whole = await broker(tmp_path)
    for number in range(20):
        await whole.create(f"t{number}")
    whole.call_soon = asyncio.get_running_loop().call_soon
    joining_by_regex = joining(subscribed_topic_names=None, subscribed_topic_regex="t1.*")
    sent = whole.send(joining_by_regex, 1)
    assert isinstance(sent, asyncio.Future)
    assert (await whole.ask(ListGroupsRequest(), 5)).groups == [], "the group begins when the topics are known"
    joined = whole.read(await sent, joining_by_regex, 1)
    assert (joined.error_code, len(joined.assignment.topic_partitions)) == (0, 11)
    refused = joining(member_id="n", subscribed_topic_names=None, subscribed_topic_regex="([a-z0-9]?){2000}")
    assert (await whole.ask(refused, 1)).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_the_first_assignor_is_the_default(tmp_path: Path) -> None:
    whole = await broker(tmp_path, group_consumer_assignors=("range",))
    assert (await whole.ask(joining(server_assignor="uniform"), 1)).error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    await whole.ask(joining(), 1)
    (group,) = (await whole.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1)).groups
    assert group.assignor_name == "range"


async def test_where_the_protocol_is_off(tmp_path: Path) -> None:
    whole = await broker(tmp_path, group_coordinator_rebalance_protocols=("classic",))
    response = await whole.ask(joining(), 1)
    assert (response.error_code, bool(response.error_message)) == (ErrorCode.UNSUPPORTED_VERSION, True)
    (group,) = (await whole.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1)).groups
    assert (group.group_id, group.error_code) == (GROUP, ErrorCode.UNSUPPORTED_VERSION)
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    supported = await whole.ask(request, message_versions(ApiKey.API_VERSIONS)[1])
    assert not {api.api_key for api in supported.api_keys} & {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE}
    await member(whole)


async def alter(whole: Whole, name: str, value: str | None, *, is_deleted: bool = False) -> int:
    config = AlterableConfig(name=name, value=value, config_operation=1 if is_deleted else 0)
    resource = AlterConfigsResource(resource_type=GROUP_TYPE, resource_name=GROUP, configs=[config])
    (one,) = (await whole.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)).responses
    return int(one.error_code)


async def test_settings_of_a_group_count_for_its_next_heartbeat(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await whole.ask(joining(), 1)
    assert await alter(whole, "consumer.heartbeat.interval.ms", "7000") == 0
    assert await alter(whole, "consumer.session.timeout.ms", "50000") == 0
    for name, value in (
        ("consumer.session.timeout.ms", "44999"),
        ("consumer.session.timeout.ms", "60001"),
        ("consumer.heartbeat.interval.ms", "4999"),
        ("consumer.heartbeat.interval.ms", "15001"),
        ("consumer.heartbeat.interval.ms", "often"),
        ("consumer.size", "3"),
    ):
        assert await alter(whole, name, value) == ErrorCode.INVALID_CONFIG, (name, value)
    assert (await whole.ask(beating(), 1)).heartbeat_interval_ms == 7000
    assert (await whole.ask(joining(group_id="other"), 1)).heartbeat_interval_ms == 5000
    whole.pass_time(49_000)
    assert (await whole.ask(beating(), 1)).error_code == 0
    whole.serve()
    whole.pass_time(49_000)
    assert (await whole.ask(beating(), 1)).heartbeat_interval_ms == 7000
    assert await alter(whole, "consumer.session.timeout.ms", None, is_deleted=True) == 0
    assert await alter(whole, "consumer.heartbeat.interval.ms", None, is_deleted=True) == 0
    assert (await whole.ask(beating(), 1)).heartbeat_interval_ms == 5000
    whole.pass_time(46_000)
    assert (await whole.ask(beating(), 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
