"""Partitions that a start cannot open: one line for all that have the same reason."""

from __future__ import annotations

import pytest

from pybroker.model import TopicPartition
from pybroker.replication.refusals import Refusals


def test_many_partitions_with_one_reason_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    for number in range(8):
        partition = TopicPartition("t", number)
        refusals.add(partition, f"{partition} is offline: its log is in no directory that works, and a directory is missing")
    refusals.add(TopicPartition("u", 0), "another reason")
    refusals.report()
    first, second = caplog.messages
    assert first.startswith(
        "8 of the partitions are offline (t-0, t-1, t-2, t-3, t-4 and 3 more): its log is in no directory that"
    )
    assert second == "1 of the partitions are offline (u-0): another reason"
