"""ListPartitionReassignments finds none."""

from __future__ import annotations

from pathlib import Path

from pybroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.api.administration import started


async def test_no_partition_is_being_moved(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    for topics in (None, [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0])]):
        response = await whole.ask(ListPartitionReassignmentsRequest(topics=topics), 0)
        assert (response.error_code, response.topics) == (0, [])
