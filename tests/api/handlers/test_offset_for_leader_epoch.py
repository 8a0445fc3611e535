"""The ends of epochs: in every version, and of a log without records, where all requests that return epochs must agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.api.handlers import list_offsets
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import alter_replica_log_dirs as move_dirs
from pybroker.protocol.messages import offset_for_leader_epoch
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from testing.scenes.api.records import batch_of_values
from testing.scenes.api.whole import Whole
from tests.api.administration import cut, produce, started, versions
from tests.api.handlers import test_list_offsets


async def ask(whole: Whole, version: int, number: int, epoch: int, current: int = -1) -> tuple[int, int, int]:
    asked = offset_for_leader_epoch.OffsetForLeaderPartition(
        partition=number, leader_epoch=epoch, current_leader_epoch=current if version >= 2 else -1
    )
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic="t", partitions=[asked])
    response = await whole.ask(offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=[topic]), version)
    (one,) = response.topics[0].partitions
    return one.error_code, one.leader_epoch, one.end_offset


@pytest.mark.parametrize("version", versions(23))
async def test_ends_of_epochs(tmp_path: Path, version: int) -> None:
    whole = await started(tmp_path)
    epoch = 0 if version >= 1 else -1
    assert await ask(whole, version, 0, 0) == (0, epoch, 5)
    assert await ask(whole, version, 0, 7) == (0, -1, -1)
    assert await ask(whole, version, 1, 0) == (0, epoch, 0), "a partition without records"
    assert await ask(whole, version, 1, 1) == (0, -1, -1)
    assert await ask(whole, version, 9, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    if version >= 2:
        assert await ask(whole, version, 0, 0, 0) == (0, 0, 5)
        assert await ask(whole, version, 0, 0, 3) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)


async def fetched(whole: Whole, offset: int, last_fetched_epoch: int) -> tuple[int, int, int]:
    """Return the error, and the diverging epoch with its end."""
    partition = FetchPartition(
        partition=0, fetch_offset=offset, last_fetched_epoch=last_fetched_epoch, partition_max_bytes=1 << 20
    )
    request = FetchRequest(replica_id=-1, max_wait_ms=0, topics=[FetchTopic(topic="t", partitions=[partition])])
    (one,) = (await whole.ask(request, 12)).responses[0].partitions
    return one.error_code, one.diverging_epoch.epoch, one.diverging_epoch.end_offset


async def test_of_a_log_that_was_emptied_every_request_reports_the_same(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    assert await cut(whole, 2, "t", p0=-1) == {0: (5, 0)}
    assert await ask(whole, 4, 0, 0, 0) == (0, 0, 5)
    for place in (list_offsets.EARLIEST, list_offsets.LATEST):
        (found,) = await test_list_offsets.ask(whole, 9, place)
        assert (found.offset, found.leader_epoch) == (5, 0)
    assert await fetched(whole, 5, 0) == (0, -1, -1), "nothing to truncate"
    assert await fetched(whole, 5, 1) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1), "an epoch that never was"


async def test_an_emptied_log_keeps_its_epoch_in_another_directory(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    whole = await Whole(tmp_path, log_dirs=tuple(map(str, folders))).start()
    await whole.create("t")
    await produce(whole, batch_of_values(b"v", b"v"))
    assert await cut(whole, 2, "t", p0=-1) == {0: (2, 0)}
    before = whole.logs.get(TopicPartition("t", 0))
    assert before is not None
    (target,) = (folder for folder in folders if not before.path.startswith(str(folder)))
    topics = [move_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0])]
    request = move_dirs.AlterReplicaLogDirsRequest(dirs=[move_dirs.AlterReplicaLogDir(path=str(target), topics=topics)])
    assert (await whole.ask(request, 2)).results[0].partitions[0].error_code == 0
    after = whole.logs.get(TopicPartition("t", 0))
    assert after is not None
    assert after.path == f"{target}/t-0"
    assert await ask(whole, 4, 0, 0, 0) == (0, 0, 2)
