"""DescribeGroups, ListGroups, DeleteGroups and OffsetDelete in each version; tests/scenarios describes when they succeed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest
from pybroker.protocol.messages.describe_groups import DescribeGroupsRequest
from pybroker.protocol.messages.list_groups import ListGroupsRequest
from pybroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from testing.scenes.api.groups import ASSIGNMENT, GROUP, METADATA, broker, commit_request, member, versions


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


async def test_offset_delete(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await whole.ask(commit_request(), 8)
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 1, 2)]
    request = OffsetDeleteRequest(group_id=GROUP, topics=[OffsetDeleteRequestTopic(name="t", partitions=partitions)])
    response = await whole.ask(request, 0)
    assert [(p.partition_index, p.error_code) for t in response.topics for p in t.partitions] == [
        (0, 0), (1, 0), (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]  # fmt: skip
    assert not any(shard.offsets for shard in whole.groups.runtime.shards)
    for name, code in (("nobody", ErrorCode.GROUP_ID_NOT_FOUND), ("", ErrorCode.INVALID_GROUP_ID)):
        request.group_id = name
        assert (await whole.ask(request, 0)).error_code == code
