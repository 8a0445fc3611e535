"""SyncGroup in each version; tests/scenarios describes the behaviour of groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from testing.scenes.api.groups import ASSIGNMENT, GROUP, broker, join_request, member, versions


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
async def test_sync(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    member_id = await member(whole)
    request = SyncGroupRequest(
        group_id=GROUP, generation_id=1, member_id=member_id, protocol_type="consumer", protocol_name="range"
    )
    response = await whole.ask(request, version)
    assert (response.error_code, response.assignment) == (0, ASSIGNMENT)
    assert (response.protocol_type, response.protocol_name) == (("consumer", "range") if version >= 5 else (None, None))
    for changed, value, code in (
        ("generation_id", 2, ErrorCode.ILLEGAL_GENERATION),
        ("member_id", "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        ("group_id", "other", ErrorCode.UNKNOWN_MEMBER_ID),
        ("group_id", "", ErrorCode.INVALID_GROUP_ID),
    ):
        setattr(request, changed, value)
        assert (await whole.ask(request, version)).error_code == code


async def test_the_last_assignment_of_a_member_counts_and_those_of_others_are_ignored(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    joined = await whole.ask(join_request(), 3)
    given = [(joined.member_id, b"a"), ("x", b"x"), (joined.member_id, b"aa"), ("y", b"y")]
    assignments = [SyncGroupRequestAssignment(member_id=name, assignment=value) for name, value in given]
    request = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=joined.member_id, assignments=assignments)
    synced = await whole.ask(request, 0)
    assert (synced.error_code, synced.assignment) == (0, b"aa")


async def test_sync_needs_the_protocol_from_version_5(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    member_id = await member(whole)
    for kind, name in ((None, "range"), ("consumer", None), ("consumer", "other"), ("connect", "range")):
        request = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=member_id, protocol_type=kind, protocol_name=name)
        assert (await whole.ask(request, 5)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
