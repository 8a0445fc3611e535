"""DeleteGroups in each version; tests/scenarios describes when it succeeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest
from testing.scenes.api.groups import GROUP, broker, commit_request, member, versions


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
async def test_delete(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await member(whole)
    await whole.ask(commit_request(group_id="simple"), 8)
    request = DeleteGroupsRequest(groups_names=["simple", GROUP, "nobody", "simple"])
    results = (await whole.ask(request, version)).results
    assert {(one.group_id, one.error_code) for one in results} == {
        ("simple", 0),
        (GROUP, ErrorCode.NON_EMPTY_GROUP),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    }
    assert len(results) == 3
    assert (await whole.ask(DeleteGroupsRequest(groups_names=[]), version)).results == []
    assert not any("simple" in shard.classic_groups or "simple" in shard.offsets for shard in whole.groups.runtime.shards)
