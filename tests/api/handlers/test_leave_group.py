"""LeaveGroup in each version; tests/scenarios describes the behaviour of groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from testing.scenes.api.groups import GROUP, broker, member, versions


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
async def test_leave(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    member_id = await member(whole)
    if version < 3:
        for name, code in (("nobody", ErrorCode.UNKNOWN_MEMBER_ID), (member_id, 0), (member_id, ErrorCode.UNKNOWN_MEMBER_ID)):
            assert (await whole.ask(LeaveGroupRequest(group_id=GROUP, member_id=name), version)).error_code == code
        return
    members = [MemberIdentity(member_id=name) for name in ("nobody", member_id)]
    response = await whole.ask(LeaveGroupRequest(group_id=GROUP, members=members), version)
    assert response.error_code == 0
    assert [(m.member_id, m.error_code) for m in response.members] == [
        ("nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        (member_id, 0),
    ]


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
async def test_leaving_a_group_that_is_not_there(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    for group, code in (("nope", ErrorCode.UNKNOWN_MEMBER_ID), ("", ErrorCode.INVALID_GROUP_ID)):
        identity = MemberIdentity(member_id="m")
        request = (
            LeaveGroupRequest(group_id=group, member_id="m")
            if version < 3
            else LeaveGroupRequest(group_id=group, members=[identity])
        )
        response = await whole.ask(request, version)
        inner = [m.error_code for m in response.members]
        assert (response.error_code or inner[0]) == code
