"""The request and the response of each version; tests/scenarios describes the behaviour of groups."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pybroker.model import GroupId
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.join_group import JoinGroupRequest
from testing.scenes.api.groups import METADATA, broker, join_request, versions

VERSIONS = versions(ApiKey.JOIN_GROUP)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_new_member(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    response = await whole.ask(join_request(), version)
    if version >= 4:
        assert (response.error_code, response.generation_id, response.members) == (ErrorCode.MEMBER_ID_REQUIRED, -1, [])
        assert response.member_id.startswith("test-")
        response = await whole.ask(join_request(response.member_id), version)
    assert (response.error_code, response.generation_id, response.leader) == (0, 1, response.member_id)
    assert response.protocol_name == "range"
    assert response.protocol_type == ("consumer" if version >= 7 else None)
    assert [(m.member_id, m.group_instance_id, m.metadata) for m in response.members] == [(response.member_id, None, METADATA)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
async def test_what_is_refused(version: int, changed: dict[str, object], code: ErrorCode, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    request: JoinGroupRequest = join_request()
    for name, value in changed.items():
        setattr(request, name, value)
    response = await whole.ask(request, version)
    assert (response.error_code, response.generation_id) == (code, -1)
    assert response.protocol_name == ""
    assert not any(shard.classic_groups for shard in whole.groups.runtime.shards)


async def test_before_version_1_the_session_timeout_is_the_rebalance_timeout(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    for version in (0, 1):
        request = join_request()
        request.group_id = f"v{version}"
        await whole.ask(request, version)
    groups = {name: group for shard in whole.groups.runtime.shards for name, group in shard.classic_groups.items()}
    assert groups[GroupId("v0")].rebalance_timeout_ms == 10_000
    assert groups[GroupId("v1")].rebalance_timeout_ms == 20_000


async def test_a_lost_connection_does_not_take_the_member_out(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    first = await whole.ask(join_request(), 3)
    waiting = whole.send(join_request(), 3)
    assert isinstance(waiting, asyncio.Future)
    waiting.cancel()  # as the network does
    joined = await whole.ask(join_request(first.member_id), 3)
    assert len(joined.members) == 2


async def test_without_a_topic_of_offsets_no_broker_coordinates(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    topic = whole.controller.image.topics["__consumer_offsets"]
    waiting = whole.ask(join_request(group_instance_id="i"), 5)
    assert (await waiting).error_code == 0
    await whole.controller.delete_topics([topic.topic_id])
    assert (await whole.ask(join_request(), 3)).error_code == ErrorCode.NOT_COORDINATOR
