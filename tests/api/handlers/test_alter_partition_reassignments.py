"""AlterPartitionReassignments in every version: the only place for a partition is where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.api.administration import started, versions


@pytest.mark.parametrize("version", versions(45))
async def test_partitions_move_to_where_they_are(tmp_path: Path, version: int) -> None:
    whole = await started(tmp_path)
    wanted: list[tuple[int, list[int] | None]] = [(0, [1]), (0, [7]), (0, []), (0, [1, 1]), (0, None), (9, [1])]
    partitions = [ReassignablePartition(partition_index=number, replicas=replicas) for number, replicas in wanted]
    topics = [
        ReassignableTopic(name="t", partitions=partitions),
        ReassignableTopic(name="nope", partitions=partitions[:1]),
    ]
    response = await whole.ask(AlterPartitionReassignmentsRequest(topics=topics), version)
    bad, unknown = ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert response.error_code == 0
    assert [[one.error_code for one in topic.partitions] for topic in response.responses] == [
        [0, bad, bad, bad, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, unknown],
        [unknown],
    ]
