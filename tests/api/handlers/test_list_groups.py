"""ListGroups in each version, with its filters, and while groups are loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.list_groups import ListGroupsRequest
from testing.scenes.api.groups import GROUP, broker, commit_request, member, versions


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
async def test_list(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await member(whole)
    await whole.ask(commit_request(group_id="simple"), 8)

    async def listed(**filters: list[str]) -> list[tuple[str, str]]:
        response = await whole.ask(ListGroupsRequest(**filters), version)
        assert response.error_code == 0
        return sorted((group.group_id, group.protocol_type) for group in response.groups)

    everything = [(GROUP, "consumer"), ("simple", "")]
    assert await listed() == everything
    if version >= 4:
        assert await listed(states_filter=["sTaBle"]) == everything[:1]
        assert await listed(states_filter=["Empty", "Stable"]) == everything
        assert await listed(states_filter=["nonsense"]) == []
    if version >= 5:
        assert await listed(types_filter=["Classic"]) == everything
        assert await listed(types_filter=["consumer"]) == []


async def test_while_groups_are_loaded_there_is_no_list(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    whole.groups.runtime.begin_loading(1)
    assert (await whole.ask(ListGroupsRequest(), 5)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
