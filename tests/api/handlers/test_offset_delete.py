"""OffsetDelete and its errors; tests/scenarios describes when it succeeds."""

from __future__ import annotations

from pathlib import Path

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from testing.scenes.api.groups import GROUP, broker, commit_request


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
