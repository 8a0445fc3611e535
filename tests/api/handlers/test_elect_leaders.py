"""ElectLeaders in every version: the only replica leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import elect_leaders
from tests.api.administration import started, versions


@pytest.mark.parametrize("version", versions(43))
async def test_no_election_is_needed(tmp_path: Path, version: int) -> None:
    whole = await started(tmp_path)
    topics = [
        elect_leaders.TopicPartitions(topic="t", partitions=[0, 9]),
        elect_leaders.TopicPartitions(topic="nope", partitions=[0]),
    ]
    response = await whole.ask(elect_leaders.ElectLeadersRequest(topic_partitions=topics), version)
    not_needed, unknown = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [[one.error_code for one in topic.partition_result] for topic in response.replica_election_results] == [
        [not_needed, unknown],
        [unknown],
    ]
    response = await whole.ask(elect_leaders.ElectLeadersRequest(topic_partitions=None), version)
    assert (response.error_code, response.replica_election_results) == (0, [])
    if version >= 1:
        response = await whole.ask(elect_leaders.ElectLeadersRequest(topic_partitions=topics, election_type=5), version)
        assert response.error_code == ErrorCode.INVALID_REQUEST
