"""A clean-up of many offsets and groups gives the loop back, and what clients do meanwhile counts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pybroker.coordinator import expiry
from pybroker.coordinator.committed import CommittedOffset
from pybroker.coordinator.state.shard import GroupShard
from pybroker.model import GroupId, LeaderEpoch, Offset
from pybroker.sharing.work import run_through
from testing.scenes.api.groups import broker
from testing.scenes.api.whole import NOW_MS, Whole
from testing.turns import watched

OLD = CommittedOffset(Offset(5), LeaderEpoch(-1), "", NOW_MS)
CHECK_MS = 600_000


def filled(folder: Path, *, groups: int, topics: int, partitions: int) -> tuple[Whole, GroupShard]:
    """Return a broker whose group `g` has offsets of many topics, among other groups, all old enough at the next clean-up."""
    whole = asyncio.run(broker(folder, offsets_retention_minutes=1, offsets_retention_check_interval_ms=CHECK_MS))
    shard = next(iter(whole.groups.runtime.shards))
    for number in range(groups):
        shard.replay_offset(GroupId(f"g{number}"), "t", 0, OLD)
    for number in range(topics):
        shard.replay_offsets(GroupId("many"), f"t{number}", dict.fromkeys(range(partitions), OLD))
    return whole, shard


@pytest.mark.judges_time
def test_many_offsets_expire_in_slices(tmp_path: Path) -> None:
    whole, shard = filled(tmp_path, groups=5_000, topics=100, partitions=100)
    whole.clock.advance(2 * CHECK_MS)
    with watched() as turns:
        while shard.offsets or shard.classic_groups:
            whole.clock.advance(10)
            turns.run(whole.timer.advance)
    assert turns.long_texts() == []


@pytest.mark.parametrize("topic", ["t0", "new"])
def test_an_offset_that_is_committed_between_two_slices_keeps_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    monkeypatch.setattr(expiry, "OFFSETS_MAX", 1)
    _, shard = filled(tmp_path, groups=0, topics=2, partitions=1)
    now_ms = NOW_MS + CHECK_MS
    rest = expiry.places(shard)
    result, is_done = run_through(expiry.clean_up(shard, rest, now_ms))
    assert not is_done
    assert [record.key.topic for record in result.records] == ["t0"]
    for record in result.records:
        shard.replay(record)
    shard.replay_offset(GroupId("many"), topic, 0, OLD._replace(commit_ms=now_ms))
    while not is_done:
        result, is_done = run_through(expiry.clean_up(shard, rest, now_ms))
        for record in result.records:
            shard.replay(record)
    assert list(shard.offsets[GroupId("many")]) == [topic]
    assert shard.find_group(GroupId("many")) is not None


def test_a_group_that_is_removed_between_two_slices_is_no_more_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "OFFSETS_MAX", 1)
    _, shard = filled(tmp_path, groups=1, topics=2, partitions=1)
    rest = expiry.places(shard)
    assert not run_through(expiry.clean_up(shard, rest, NOW_MS + CHECK_MS))[1]
    shard.classic_groups.clear()
    shard.offsets.clear()
    result, is_done = run_through(expiry.clean_up(shard, rest, NOW_MS + CHECK_MS))
    assert (result.records, is_done) == ([], True)
