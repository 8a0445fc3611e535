"""Offsets in each version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from testing.scenes.api.groups import GROUP, broker, commit_request, versions
from testing.scenes.api.whole import Whole

VERSIONS = versions(ApiKey.OFFSET_FETCH)


def request_of(whole: Whole, version: int, group: str, topics: dict[str, list[int]] | None) -> OffsetFetchRequest:
    if version < 8:
        old = None if topics is None else [OffsetFetchRequestTopic(name=t, partition_indexes=p) for t, p in topics.items()]
        return OffsetFetchRequest(group_id=group, topics=old)
    new = None
    if topics is not None:
        ids = {t: whole.controller.image.topics[t].topic_id if t in whole.controller.image.topics else b"?" * 16 for t in topics}
        new = [OffsetFetchRequestTopics(name=t, topic_id=ids[t], partition_indexes=p) for t, p in topics.items()]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=new)])


async def fetch(whole: Whole, version: int, group: str, topics: dict[str, list[int]] | None) -> tuple[int, list[Any]]:
    """Return the group's error, and [partition, offset, metadata, error] of each topic."""
    response = await whole.ask(request_of(whole, version, group, topics), version)
    group_response = response if version < 8 else response.groups[0]
    if version >= 8:
        assert group_response.group_id == group
    return group_response.error_code, [
        (p.partition_index, p.committed_offset, p.metadata, p.error_code) for t in group_response.topics for p in t.partitions
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_partitions_that_are_named(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await whole.ask(commit_request(offset=5, committed_metadata="text"), 8)
    nothing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version == 0 else 0
    assert await fetch(whole, version, GROUP, {"t": [1, 0]}) == (0, [(1, -1, "", nothing), (0, 5, "text", 0)])
    assert await fetch(whole, version, "other", {"t": [0]}) == (0, [(0, -1, "", nothing)])
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else nothing
    assert await fetch(whole, version, GROUP, {"u": [0]}) == (0, [(0, -1, "", unknown)])


@pytest.mark.parametrize("version", VERSIONS[2:])
async def test_all_partitions(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    assert await fetch(whole, version, GROUP, None) == (0, [])
    await whole.ask(commit_request(offset=5), 8)
    assert await fetch(whole, version, GROUP, None) == (0, [(0, 5, "", 0)])


@pytest.mark.parametrize("version", VERSIONS)
async def test_while_groups_are_loaded(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    whole.groups.runtime.begin_loading(1)
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    response = await fetch(whole, version, GROUP, {"t": [0]})
    assert response == (code if version >= 2 else 0, [(0, -1, "", code)] if version < 8 else [])


async def test_several_groups(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    for name, offset in (("g", 5), ("h", 6)):
        await whole.ask(commit_request(group_id=name, offset=offset), 8)
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("h", "nobody", "g")]
    response = await whole.ask(OffsetFetchRequest(groups=groups), 9)
    assert [(g.group_id, [p.committed_offset for t in g.topics for p in t.partitions]) for g in response.groups] == [
        ("h", [6]), ("nobody", []), ("g", [5]),
    ]  # fmt: skip
