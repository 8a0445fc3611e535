"""DescribeGroups in each version; tests/scenarios describes the behaviour of groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_groups import DescribeGroupsRequest
from testing.scenes.api.groups import ASSIGNMENT, GROUP, METADATA, broker, member, versions


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
async def test_describe(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    member_id = await member(whole, "instance")
    request = DescribeGroupsRequest(groups=[GROUP, "nobody"], include_authorized_operations=version >= 3)
    found, missing = (await whole.ask(request, version)).groups
    assert (found.error_code, found.group_id, found.group_state, found.protocol_type, found.protocol_data) == (
        0, GROUP, "Stable", "consumer", "range",
    )  # fmt: skip
    (one,) = found.members
    assert (one.member_id, one.client_id, one.member_metadata, one.member_assignment) == (member_id, "test", METADATA, ASSIGNMENT)
    assert one.group_instance_id == ("instance" if version >= 4 else None)
    assert (missing.group_id, missing.group_state) == ("nobody", "Dead")
    assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert missing.error_message == ("Group nobody not found." if version >= 6 else None)
    if version >= 3:
        assert found.authorized_operations == (1 << 3) + (1 << 6) + (1 << 8) + (1 << 10) + (1 << 11)
