"""AlterReplicaLogDirs in every version: replicas stay, or move while they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import alter_replica_log_dirs as move_dirs
from pybroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.records.batch import batches
from testing.scenes.api.records import batch_of_values
from testing.scenes.api.whole import Whole, settled
from tests.api.administration import produce, started, versions


@pytest.mark.parametrize("version", versions(34))
async def test_replicas_stay_in_their_directory(tmp_path: Path, version: int) -> None:
    whole = await started(tmp_path)
    topics = [move_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0, 9])]
    request = move_dirs.AlterReplicaLogDirsRequest(
        dirs=[move_dirs.AlterReplicaLogDir(path=path, topics=topics) for path in (str(tmp_path), "/nope")]
    )
    (topic,) = (await whole.ask(request, version)).results
    unknown, elsewhere = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LOG_DIR_NOT_FOUND
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
        (0, 0),
        (9, unknown),
        (0, elsewhere),
        (9, elsewhere),
    ]


@pytest.mark.parametrize("version", versions(34))
async def test_replicas_move_between_directories(tmp_path: Path, version: int) -> None:
    """Assert that a moving replica is in both directories and serves fetches, and that a waiting fetch ends in the new place."""
    folders = [tmp_path / "a", tmp_path / "b"]
    whole = await Whole(tmp_path, log_dirs=tuple(map(str, folders))).start()
    turns: list[Any] = []
    whole.replicas.moves._later = turns.append
    await whole.create("t")
    await produce(whole, batch_of_values(*[b"v"] * 5))
    (source, target) = folders if (folders[0] / "t-0").is_dir() else folders[::-1]

    async def where() -> dict[str, list[tuple[int, bool]]]:
        results = (await whole.ask(DescribeLogDirsRequest(topics=None), 4)).results
        return {
            one.log_dir: [
                (partition.offset_lag, partition.is_future_key) for topic in one.topics for partition in topic.partitions
            ]
            for one in results
        }

    request = move_dirs.AlterReplicaLogDirsRequest(
        dirs=[
            move_dirs.AlterReplicaLogDir(path=str(target), topics=[move_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0])])
        ]
    )
    waiting = whole.send(fetch(5), 4)
    (topic,) = (await whole.ask(request, version)).results
    assert topic.partitions[0].error_code == 0
    assert await where() == {str(source): [(0, False)], str(target): [(5, True)]}
    while turns:
        turns.pop(0)()
    assert await where() == {str(source): [], str(target): [(0, False)]}
    await produce(whole, batch_of_values(b"w"))
    response = whole.read(await settled(waiting), fetch(5), 4)
    assert response.responses[0].partitions[0].error_code == 0
    response = await whole.ask(fetch(0), 4)
    (partition,) = response.responses[0].partitions
    assert (partition.high_watermark, partition.error_code) == (6, 0)
    assert [one.last_offset for one in batches(bytes(partition.records))] == [4, 5]


def fetch(offset: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(replica_id=-1, max_wait_ms=1000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[partition])])
