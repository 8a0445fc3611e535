"""When records cannot be written, a KIP-848 group stays as it was, the request gets the error, and timers try again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pybroker.coordinator.consumer.member_timers import RETRY_MS
from pybroker.coordinator.state.classic_group import GroupState
from pybroker.model import GroupId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from pybroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from testing.scenes.api.groups import GROUP, broker, unwritable
from testing.scenes.api.whole import Whole
from tests.coordinator.consumer.consumer_state import group_of, state_of
from tests.coordinator.scenario import assignment, subscription

SESSION_MS = 60_000


def heartbeat(member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    content: dict[str, Any] = {}
    if epoch == 0:
        content = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch, **{**content, **fields})


def joining(member_id: str = "", instance: str | None = None) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription("t"))]
    return JoinGroupRequest(
        group_id=GROUP, member_id=member_id, group_instance_id=instance, session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=30_000, protocol_type="consumer", protocols=protocols,
    )  # fmt: skip


async def classic_group(whole: Whole, instance: str | None = None) -> str:
    """Make a stable classic group with a single member. Returns the id of the member."""
    member_id = (await whole.ask(joining(instance=instance), 5 if instance else 3)).member_id
    given = [SyncGroupRequestAssignment(member_id=member_id, assignment=assignment("t-0,t-1"))]
    request = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=member_id, assignments=given)
    assert (await whole.ask(request, 3)).error_code == 0
    return str(member_id)


def classic_of(whole: Whole) -> Any:
    return next(
        (shard.classic_groups[GroupId(GROUP)] for shard in whole.groups.runtime.shards if GROUP in shard.classic_groups), None
    )


async def mixed_group(whole: Whole, instance: str | None = None) -> str:
    """Make a group of `m`, static if `instance` is given, and of a member of the classic protocol; return the latter's id."""
    member_id = await classic_group(whole)
    assert (await whole.ask(heartbeat("m", 0, instance_id=instance), 1)).error_code == 0
    assert (await whole.ask(joining(member_id), 5)).generation_id == 2
    assert (await whole.ask(SyncGroupRequest(group_id=GROUP, generation_id=2, member_id=member_id), 3)).error_code == 0
    assert (await whole.ask(heartbeat("m", 2, instance_id=instance), 1)).error_code == 0
    return member_id


async def test_an_upgrade(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    member_id = await classic_group(whole)
    with unwritable():
        refused = await whole.ask(heartbeat("m", 0), 1)
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group_of(whole, GROUP) is None
    group = classic_of(whole)
    assert (group.state, [*group.members]) == (GroupState.STABLE, [member_id])
    assert (await whole.ask(heartbeat("m", 0), 1)).member_epoch == 2
    assert classic_of(whole) is None


async def test_a_downgrade_by_one_that_leaves(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await mixed_group(whole)
    before = state_of(group_of(whole, GROUP))
    with unwritable():
        refused = await whole.ask(heartbeat("m", -1), 1)
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert state_of(group_of(whole, GROUP)) == before
    assert (await whole.ask(heartbeat("m", -1), 1)).error_code == 0
    assert classic_of(whole).state is GroupState.PREPARING_REBALANCE


async def test_a_downgrade_by_a_static_member_that_comes_again(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await mixed_group(whole, "i")
    before = state_of(group_of(whole, GROUP))
    with unwritable():
        refused = await whole.ask(joining(instance="i"), 5)
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert state_of(group_of(whole, GROUP)) == before
    joined = await whole.ask(joining(instance="i"), 5)
    assert (joined.error_code, joined.generation_id) == (0, 2)
    assert classic_of(whole).state is GroupState.STABLE


async def test_the_end_of_a_session_is_tried_again(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await mixed_group(whole)
    before = state_of(group_of(whole, GROUP))
    with unwritable():
        whole.pass_time(whole.config.group_consumer_session_timeout_ms)
    assert state_of(group_of(whole, GROUP)) == before
    whole.pass_time(2 * RETRY_MS)
    assert group_of(whole, GROUP) is None
    assert classic_of(whole).state is GroupState.PREPARING_REBALANCE


async def test_a_group_that_changes_back_and_forth_forgets_what_it_waited_for(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    member_id = await mixed_group(whole)
    beat = HeartbeatRequest(group_id=GROUP, generation_id=2, member_id=member_id)
    assert (await whole.ask(heartbeat("n", 0), 1)).member_epoch == 3
    assert (await whole.ask(beat, 3)).error_code == ErrorCode.REBALANCE_IN_PROGRESS  # it has 30 s to join
    for name in "mn":
        assert (await whole.ask(heartbeat(name, -1), 1)).error_code == 0
    joined = await whole.ask(joining(member_id), 5)
    request = SyncGroupRequest(group_id=GROUP, generation_id=joined.generation_id, member_id=member_id)
    assert (await whole.ask(request, 3)).error_code == 0
    whole.pass_time(20_000)
    assert (await whole.ask(joining(member_id), 5)).error_code == 0
    given = [SyncGroupRequestAssignment(member_id=member_id, assignment=assignment("t-0,t-1"))]
    again = SyncGroupRequest(
        group_id=GROUP, generation_id=classic_of(whole).generation_id, member_id=member_id, assignments=given
    )
    assert (await whole.ask(again, 3)).error_code == 0
    assert (await whole.ask(heartbeat("m", 0), 1)).error_code == 0
    whole.pass_time(15_000)
    group = group_of(whole, GROUP)
    assert group is not None
    assert group.members.keys() == {"m", member_id}
