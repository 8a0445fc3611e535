"""DescribeLogDirs in every version: sizes of partitions, the room of a volume, and a directory that failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.api.administration import started, versions


@pytest.mark.parametrize("version", versions(35))
async def test_directories_are_described(tmp_path: Path, version: int) -> None:
    whole = await started(tmp_path)

    async def ask(*topics: DescribableLogDirTopic) -> Any:
        return await whole.ask(DescribeLogDirsRequest(topics=list(topics) or None), version)

    (directory,) = (await ask()).results
    assert (directory.error_code, directory.log_dir) == (0, str(tmp_path))
    ((topic),) = directory.topics
    size = (tmp_path / "t-0" / f"{0:020}.log").stat().st_size
    assert [(one.partition_index, one.partition_size, one.offset_lag) for one in topic.partitions] == [(0, size, 0), (1, 0, 0)]
    if version >= 4:
        assert 0 < directory.usable_bytes <= directory.total_bytes
    (directory,) = (await ask(DescribableLogDirTopic(topic="t", partitions=[1, 9, 1]))).results
    assert [[one.partition_index for one in topic.partitions] for topic in directory.topics] == [[1]]
    whole.logs.directories[0].fail(OSError("broken"))
    (directory,) = (await ask()).results
    assert (directory.error_code, directory.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
