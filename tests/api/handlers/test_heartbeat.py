"""Heartbeat in each version; tests/scenarios describes the behaviour of groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from pybroker.protocol.messages.sync_group import SyncGroupRequest
from testing.scenes.api.groups import GROUP, broker, member, versions


@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
async def test_heartbeat(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=await member(whole))
    assert (await whole.ask(request, version)).error_code == 0
    for changed, value, code in (
        ("generation_id", 2, ErrorCode.ILLEGAL_GENERATION),
        ("member_id", "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        ("group_id", "other", ErrorCode.UNKNOWN_MEMBER_ID),
        ("group_id", "", ErrorCode.INVALID_GROUP_ID),
    ):
        setattr(request, changed, value)
        assert (await whole.ask(request, version)).error_code == code


async def test_while_groups_are_loaded_a_heartbeat_is_fine(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    member_id = await member(whole)
    whole.groups.runtime.begin_loading(1)  # the partition of GROUP, which is 103 modulo 2
    assert (await whole.ask(HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id), 4)).error_code == 0
    request = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=member_id)
    assert (await whole.ask(request, 0)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
