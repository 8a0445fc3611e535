"""A group that many members join at once: the responses to a new generation are paced, and each member gets its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from testing.scenes.api.groups import GROUP, broker, join_request
from testing.scenes.api.whole import settled

MEMBERS = 40


async def test_a_group_of_many_members_gets_its_generation(tmp_path: Path) -> None:
    whole = await broker(tmp_path, group_initial_rebalance_delay_ms=3000)
    joins = [whole.send(join_request(), 3) for _ in range(MEMBERS)]
    whole.pass_time(7_000)
    joined = [whole.read(await settled(one), join_request(), 3) for one in joins]
    assert {(one.error_code, one.generation_id) for one in joined} == {(0, 1)}
    (leader,) = [one for one in joined if one.members]
    assert len(leader.members) == MEMBERS
    requests = [sync(one.member_id, [leader, *joined] if one is leader else []) for one in joined]
    syncs = [whole.send(request, 0) for request in requests]
    synced = [whole.read(await settled(one), requests[0], 0) for one in syncs]
    assert {(one.error_code, one.assignment) for one in synced} == {(0, b"mine")}
    beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=leader.member_id)
    assert (await whole.ask(beat, 0)).error_code == ErrorCode.NONE


def sync(member_id: str, members: list[Any]) -> SyncGroupRequest:
    assignments = [SyncGroupRequestAssignment(member_id=one.member_id, assignment=b"mine") for one in members]
    return SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=member_id, assignments=assignments)
