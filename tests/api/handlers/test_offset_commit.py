"""Commits in each version; tests/scenarios/offsets.txt describes which member may commit when."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.model import GroupId
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.offset_commit import OffsetCommitRequest
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest
from testing.scenes.api.groups import GROUP, broker, commit_request, member, versions
from testing.scenes.api.whole import NOW_MS, Whole

VERSIONS = versions(ApiKey.OFFSET_COMMIT)


async def commit(whole: Whole, request: OffsetCommitRequest, version: int) -> int:
    if version >= 10 and (topic := whole.controller.image.topics.get(request.topics[0].name)) is not None:
        request.topics[0].topic_id = topic.topic_id
    response = await whole.ask(request, version)
    (topic,) = response.topics
    assert (topic.topic_id if version >= 10 else topic.name) == (
        request.topics[0].topic_id if version >= 10 else request.topics[0].name
    )
    (partition,) = topic.partitions
    return int(partition.error_code)


def committed(whole: Whole) -> tuple[int, int, str, int, int]:
    (found,) = [one for shard in whole.groups.runtime.shards if (one := shard.offset(GroupId(GROUP), "t", 0)) is not None]
    return tuple(found)  # type: ignore[return-value]


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_offset_from_outside_of_the_group(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    assert await commit(whole, commit_request(committed_metadata="text"), version) == 0
    assert committed(whole) == (5, -1, "text", NOW_MS, -1)
    response = await whole.ask(OffsetFetchRequest(group_id=GROUP, topics=None), 7)
    assert [(p.committed_offset, p.metadata) for t in response.topics for p in t.partitions] == [(5, "text")]


@pytest.mark.parametrize("version", VERSIONS)
async def test_partitions_that_do_not_exist(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    assert await commit(whole, commit_request(partition=2), version) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit(whole, commit_request(topic="u", topic_id=b"u" * 16), version) == unknown
    assert not any(shard.classic_groups for shard in whole.groups.runtime.shards)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_text_that_is_too_long(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path, offset_metadata_max_bytes=3)
    assert await commit(whole, commit_request(committed_metadata="long"), version) == ErrorCode.OFFSET_METADATA_TOO_LARGE


@pytest.mark.parametrize("version", VERSIONS[1:])
async def test_a_member_commits_in_its_generation(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    member_id = await member(whole)
    for generation, sender, code in (
        (1, member_id, ErrorCode.NONE),
        (2, member_id, ErrorCode.ILLEGAL_GENERATION),
        (1, "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        (-1, "", ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        request = commit_request(generation_id_or_member_epoch=generation, member_id=sender)
        assert await commit(whole, request, version) == code


@pytest.mark.parametrize("version", VERSIONS[1:])
async def test_a_member_of_a_group_that_is_not_there(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert await commit(whole, commit_request(generation_id_or_member_epoch=1, member_id="m"), version) == code


async def test_version_1_gives_the_time_of_the_commit(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    assert await commit(whole, commit_request(commit_timestamp=77), 1) == 0
    assert committed(whole)[3:] == (77, -1)


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_versions_2_to_4_give_the_retention_time(version: int, tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    assert await commit(whole, commit_request(retention_time_ms=1000), version) == 0
    assert committed(whole)[3:] == (NOW_MS, NOW_MS + 1000)


async def test_a_retention_beyond_all_time_lasts_for_all_time(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    assert await commit(whole, commit_request(retention_time_ms=2**63 - 1), 3) == 0
    assert committed(whole)[3:] == (NOW_MS, 2**63 - 1)
    assert whole.metrics.unexpected_errors == 0


async def test_nothing_to_commit(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    assert (await whole.ask(OffsetCommitRequest(group_id=GROUP, topics=[]), 8)).topics == []


async def test_a_commit_that_does_not_fit_into_a_batch(tmp_path: Path) -> None:
    whole = await broker(tmp_path, offset_metadata_max_bytes=100_000)
    topic = whole.controller.image.topics["__consumer_offsets"]
    for number in range(2):
        partition = whole.replicas.partitions["__consumer_offsets", number]  # type: ignore[index]  # a NamedTuple is a tuple
        partition.log.config = type(partition.log.config).resolve(whole.config, {**topic.configs, "max.message.bytes": "1000"})
    code = await commit(whole, commit_request(committed_metadata="x" * 2000), 8)
    assert code == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert not any(shard.classic_groups for shard in whole.groups.runtime.shards), "what was not written is not there"
