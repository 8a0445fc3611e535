"""Offsets that a transaction commits: pending until its marker, for groups of all kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.model import GroupId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from testing.scenes.api.groups import GROUP as MEMBERS
from testing.scenes.api.groups import commit_request, join_request, member
from testing.scenes.api.whole import Whole
from tests.api.offset_transactions import GROUP, UNSTABLE, OffsetProducer, committed, is_pending
from tests.api.transactions import broker

NONE = ErrorCode.NONE
VERSIONS = pytest.mark.parametrize("version", [1, 2])
DAY_MS = 86_400_000


async def opened(folder: Path, version: int, group: str = GROUP, **config: Any) -> tuple[Whole, OffsetProducer]:
    """Return a broker and a producer whose transaction may commit offsets of the group."""
    whole = await broker(folder, offsets_topic_num_partitions=2, **config)
    await whole.ask(FindCoordinatorRequest(key=group), 3)
    producer = OffsetProducer(whole, version)
    assert await producer.init() == NONE
    if version == 1:
        assert await producer.open_offsets(group) == NONE
    return whole, producer


async def commit_outside(whole: Whole, offset: int, partition: int = 0) -> None:
    response = await whole.ask(commit_request(group_id=GROUP, offset=offset, partition=partition), 8)
    assert response.topics[0].partitions[0].error_code == 0


@VERSIONS
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("restart", [True, False])
async def test_offsets_count_when_their_transaction_is_committed(
    tmp_path: Path, version: int, commit: bool, restart: bool
) -> None:
    whole, producer = await opened(tmp_path, version)
    await commit_outside(whole, 3)
    assert await producer.commit(7, 0, 1) == [NONE, NONE]
    if restart:
        whole.serve()
    assert await committed(whole) == [UNSTABLE, UNSTABLE]
    assert await committed(whole, everything=True) == [UNSTABLE]
    assert await committed(whole, stable=False) == [3, -1]
    assert await producer.end(commit=commit) == NONE
    for _ in range(2):
        assert await committed(whole) == ([7, 7] if commit else [3, -1])
        whole.serve()


@VERSIONS
async def test_a_producer_commits_offsets_again_and_again(tmp_path: Path, version: int) -> None:
    whole, producer = await opened(tmp_path, version)
    for number in range(4):
        if version == 1:
            assert await producer.open_offsets() == NONE
        assert await producer.commit(number) == [NONE]
        assert await producer.commit(10 + number) == [NONE]
        assert await producer.end(commit=number % 2 == 0) == NONE
        assert (await committed(whole))[0] == 10 + number - number % 2


async def test_the_younger_commit_counts_whatever_the_order_of_the_markers(tmp_path: Path) -> None:
    whole, first = await opened(tmp_path, 2)
    second = OffsetProducer(whole, 2, tid="t-2")
    await second.init()
    await first.commit(10, 0, 1)
    await second.commit(20, 0)
    await commit_outside(whole, 30, partition=1)
    assert await committed(whole, stable=False) == [-1, 30]
    assert await committed(whole) == [UNSTABLE, UNSTABLE]
    assert await second.end(commit=True) == NONE
    assert await committed(whole) == [UNSTABLE, UNSTABLE]
    whole.serve()
    assert await first.end(commit=True) == NONE
    for _ in range(2):
        assert await committed(whole) == [20, 30]
        whole.serve()


async def test_the_partition_of_the_offsets_must_belong_to_the_transaction(tmp_path: Path) -> None:
    whole, producer = await opened(tmp_path, 2)
    codes = [await producer.commit(1, version=version) for version in (0, 3, 4)]
    assert codes == [[ErrorCode.INVALID_TXN_STATE], [ErrorCode.INVALID_TXN_STATE], [ErrorCode.TRANSACTION_ABORTABLE]]
    assert not is_pending(whole)


async def test_a_late_commit_of_offsets_opens_no_transaction(tmp_path: Path) -> None:
    whole, producer = await opened(tmp_path, 1)
    assert await producer.commit(1) == [NONE]
    assert await producer.end(commit=True) == NONE
    assert await producer.commit(2) == [ErrorCode.INVALID_TXN_STATE]
    assert not is_pending(whole)


@pytest.mark.parametrize("version", range(7))
async def test_every_version(tmp_path: Path, version: int) -> None:
    whole, producer = await opened(tmp_path, 1)
    assert await producer.open_offsets(version=min(version, 4)) == NONE
    assert await producer.commit(5, 0, 7, version=version) == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await producer.end(commit=True) == NONE
    assert await committed(whole) == [5, -1]


async def test_only_a_group_with_a_name_commits(tmp_path: Path) -> None:
    _, producer = await opened(tmp_path, 2)
    assert await producer.commit(1, group_id="") == [ErrorCode.INVALID_GROUP_ID]
    assert await producer.commit(1, producer_id=-1) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]


async def test_the_group_of_classic_members_checks_member_and_generation(tmp_path: Path) -> None:
    whole, producer = await opened(tmp_path, 2, MEMBERS)
    member_id = await member(whole)
    good: dict[str, Any] = {"group_id": MEMBERS, "member_id": member_id, "generation_id_or_member_epoch": 1}
    assert await producer.commit(1, **good) == [NONE]
    assert await producer.commit(1, group_id=MEMBERS) == [NONE]  # a client that sends no member
    assert await producer.commit(1, **good | {"generation_id_or_member_epoch": 2}) == [ErrorCode.ILLEGAL_GENERATION]
    assert await producer.commit(1, **good | {"member_id": "x"}) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert await producer.commit(1, **good | {"group_instance_id": "i"}) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert await producer.commit(1, **good | {"group_id": "none"}) == [ErrorCode.ILLEGAL_GENERATION]
    joined = await whole.ask(join_request(member_id=member_id), 3)
    assert joined.generation_id == 2  # and the group waits for its assignment
    assert await producer.commit(9, **good | {"generation_id_or_member_epoch": 2}) == [NONE]
    assert await producer.end(commit=True) == NONE
    assert await committed(whole, MEMBERS) == [9, -1]


async def test_the_group_of_kip_848_members_checks_member_and_epoch(tmp_path: Path) -> None:
    whole, producer = await opened(tmp_path, 2)
    beat = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", member_epoch=0, rebalance_timeout_ms=10_000, subscribed_topic_names=["t"],
        topic_partitions=[],
    )  # fmt: skip
    epoch = (await whole.ask(beat, 1)).member_epoch
    good: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": epoch}
    assert await producer.commit(1, **good) == [NONE]
    assert await producer.commit(1) == [NONE]
    assert await producer.commit(1, **good | {"generation_id_or_member_epoch": epoch + 1}) == [ErrorCode.ILLEGAL_GENERATION]
    assert await producer.commit(1, **good | {"member_id": "x"}) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert await producer.commit(6, **good) == [NONE]
    assert await producer.end(commit=True) == NONE
    assert await committed(whole) == [6, -1]


async def test_an_old_epoch_commits_no_offsets(tmp_path: Path) -> None:
    whole, first = await opened(tmp_path, 2)
    assert await first.commit(1) == [NONE]
    second = OffsetProducer(whole, 2)
    assert await second.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert await second.init() == NONE
    assert await first.commit(2) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await first.open_offsets(version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await first.open_offsets(version=2) == ErrorCode.PRODUCER_FENCED
    assert await second.commit(3) == [NONE]
    assert await second.end(commit=True) == NONE
    assert await committed(whole) == [3, -1]


async def test_a_timeout_drops_the_offsets(tmp_path: Path) -> None:
    whole, producer = await opened(tmp_path, 1)
    await commit_outside(whole, 3)
    assert await producer.commit(5) == [NONE]
    whole.pass_time(62_000)
    assert await committed(whole) == [3, -1]


async def test_what_is_deleted_does_not_come_back_with_the_commit(tmp_path: Path) -> None:
    whole, producer = await opened(tmp_path, 2)
    await producer.commit(5, 0, 1)
    unwanted = [OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    deleted = await whole.ask(OffsetDeleteRequest(group_id=GROUP, topics=unwanted), 0)
    assert deleted.topics[0].partitions[0].error_code == 0
    assert await committed(whole) == [-1, UNSTABLE]
    await producer.end(commit=True)
    assert await committed(whole) == [-1, 5]
    await producer.commit(6)
    response = await whole.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)
    assert response.results[0].error_code == 0
    whole.serve()
    await producer.end(commit=True)
    assert await committed(whole) == [-1, -1]


async def test_offsets_of_a_deleted_topic_do_not_come_back(tmp_path: Path) -> None:
    whole, producer = await opened(tmp_path, 2)
    await producer.commit(5, 0, 1)
    await whole.controller.delete_topics([whole.controller.image.topics["t"].topic_id])
    await whole.create("t", 2)
    await producer.end(commit=True)
    assert await committed(whole) == [-1, -1]


async def test_pending_offsets_keep_the_group_and_the_offset_from_expiry(tmp_path: Path) -> None:
    config: dict[str, Any] = {"offsets_retention_minutes": 60, "transaction_max_timeout_ms": 3 * DAY_MS}
    whole, producer = await opened(tmp_path, 2, **config)
    assert await producer.init(timeout_ms=2 * DAY_MS) == NONE
    await commit_outside(whole, 3)
    await producer.commit(5)
    whole.pass_time(DAY_MS // 2)
    assert await committed(whole, stable=False) == [3, -1]
    await producer.end(commit=False)
    whole.pass_time(DAY_MS // 2)
    assert await committed(whole, everything=True) == []
    assert not any(shard.find_group(GroupId(GROUP)) for shard in whole.groups.runtime.shards)


async def test_the_end_waits_until_the_offsets_are_loaded(tmp_path: Path) -> None:
    whole, producer = await opened(tmp_path, 2)
    await producer.commit(8)
    partition = whole.groups.topic_partition(GroupId(GROUP)).partition
    whole.groups.runtime.begin_loading(partition)
    assert await producer.commit(9) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert await producer.commit(9, version=1) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert await producer.end(commit=True) == NONE
    assert await producer.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    whole.groups.stop()
    whole.groups.start()
    assert await committed(whole) == [UNSTABLE, -1]
    whole.pass_time(1_000)
    assert await committed(whole) == [8, -1]
    assert await producer.init() == NONE
