"""Operations on groups that rules ask for. The response of each is whether it has found something to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.coordinator.classic import rebalance as classic
from pybroker.coordinator.consumer import member_timers
from pybroker.coordinator.runtime.result import CoordinatorResult, Operation, TimerChange
from pybroker.coordinator.state.classic_group import GroupState
from pybroker.coordinator.state.consumer_member import NOTHING
from pybroker.coordinator.state.consumer_records import epoch_record, target_epoch_record, target_record
from pybroker.model import group_epoch

if TYPE_CHECKING:
    from pybroker.coordinator.state.classic_group import ClassicGroup
    from pybroker.coordinator.state.consumer_group import ConsumerGroup
    from pybroker.coordinator.state.shard import GroupShard
    from pybroker.model import GroupEpoch, GroupId, MemberId

LOOK_MS: Final = 50
"""The time between two looks whether the members of a consumer group have given everything up."""


def expired(group_id: GroupId, member_id: MemberId) -> Operation:
    """Return an operation that removes a member, as the end of its session does."""

    def expire(shard: GroupShard, now_ms: int) -> CoordinatorResult:
        if (of_consumers := shard.consumer_groups.get(group_id)) is not None and member_id in of_consumers.members:
            result = member_timers.expire_session(group_id, member_id)(shard, now_ms)
            assert isinstance(result, CoordinatorResult)
        elif (group := shard.classic_groups.get(group_id)) is not None and member_id in group.members:
            result = classic.expire_session(shard, group, member_id, now_ms)
        else:
            return CoordinatorResult(response=False)
        result.response = True
        return result

    return expire


def rebalanced(group_id: GroupId) -> Operation:
    """Return an operation that begins a rebalance in which each member gives up all of its partitions.

    Members of the classic protocol do that by themselves. Those of the consumer protocol only give up what their targets do not
    have, so for one epoch they get empty ones.
    """

    def rebalance(shard: GroupShard, now_ms: int) -> CoordinatorResult:
        if (of_consumers := shard.consumer_groups.get(group_id)) is not None and of_consumers.members:
            return _emptied(of_consumers, now_ms)
        group = shard.classic_groups.get(group_id)
        if group is None or group.state not in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return CoordinatorResult(response=False)
        return _prepared(shard, group, now_ms)

    return rebalance


def _prepared(shard: GroupShard, group: ClassicGroup, now_ms: int) -> CoordinatorResult:
    result = CoordinatorResult(response=True)
    classic.prepare(shard, result, group, now_ms)
    return result


def _emptied(group: ConsumerGroup, now_ms: int) -> CoordinatorResult:
    """Give all members empty targets, and look later whether they have reached them."""
    epoch = group_epoch(group.epoch + 1)
    result = CoordinatorResult(response=True)
    result.records += [epoch_record(group.group_id, epoch)]
    result.records += [target_record(group.group_id, member_id, NOTHING) for member_id in group.members]
    result.records += [target_epoch_record(group.group_id, epoch=epoch, now_ms=now_ms)]
    result.timers.append(_look(group.group_id, epoch))
    return result


def _look(group_id: GroupId, epoch: GroupEpoch) -> TimerChange:
    def look(shard: GroupShard, _now_ms: int) -> CoordinatorResult:
        group = shard.consumer_groups.get(group_id)
        if group is None or not group.members or group.epoch != epoch:  # something else has begun an epoch meanwhile
            return CoordinatorResult()
        if all(member.has_reached(epoch) for member in group.members.values()):
            return CoordinatorResult(records=[epoch_record(group_id, group_epoch(epoch + 1))])  # for which they get new targets
        return CoordinatorResult(timers=[_look(group_id, epoch)])

    return TimerChange(("forced rebalance", group_id), LOOK_MS, look)
