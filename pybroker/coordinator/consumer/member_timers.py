"""The timers of members of a KIP-848 group, and the removal of members.

    session      starts again with every request of a member
    revocation   runs while a member has partitions to give up
    join         runs from a response that makes a member of the classic protocol join again, until the member joins
    sync         runs from the JoinGroup of such a member until its SyncGroup

The end of any of these timers removes the member. If all remaining members then speak the classic protocol, the group becomes a
classic group (`downgrade`).

Source: GroupMetadataManager.consumerGroupFenceMembers and the timers around it; KIP-848.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pybroker.coordinator.consumer import downgrade
from pybroker.coordinator.runtime.result import CoordinatorResult, Operation, TimerChange
from pybroker.coordinator.state.consumer_member import ConsumerMember, MemberState
from pybroker.coordinator.state.consumer_records import epoch_record, member_tombstones, regex_tombstone
from pybroker.model import MemberEpoch, group_epoch

if TYPE_CHECKING:
    from collections.abc import Collection

    from pybroker.coordinator.state.consumer_group import ConsumerGroup
    from pybroker.coordinator.state.shard import GroupShard
    from pybroker.model import GroupId, MemberId
    from pybroker.protocol.error_codes import ErrorCode
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)

RETRY_MS: Final = 500
"""The time after which a removal that could not be written to the log is tried again."""

_SESSION, _REVOCATION, _JOIN, _SYNC = _KINDS = ("session", "revocation", "join", "sync")


def _key(kind: str, group_id: GroupId, member_id: MemberId) -> tuple[str, str, str]:
    return (f"consumer {kind}", group_id, member_id)


def stop_timers(group_id: GroupId, member_id: MemberId) -> list[TimerChange]:
    """Return the changes that stop all timers of the member."""
    return [TimerChange(_key(kind, group_id, member_id), None) for kind in _KINDS]


def restart_session(result: CoordinatorResult, group_id: GroupId, member: ConsumerMember, timeout_ms: int) -> None:
    """Start the member's session again, because the member has shown that it is alive.

    A member of the classic protocol has named its session timeout itself.
    """
    if member.classic is not None:
        timeout_ms = member.classic.session_timeout_ms
    key = _key(_SESSION, group_id, member.member_id)
    result.timers.append(TimerChange(key, timeout_ms, expire_session(group_id, member.member_id)))


def expire_session(group_id: GroupId, member_id: MemberId) -> Operation:
    """Return an operation that removes a member whose session has ended."""
    key = _key(_SESSION, group_id, member_id)
    return _removal(key, group_id, member_id, None, "was silent for its session timeout")


def restart_revocation(result: CoordinatorResult, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Start or stop the time that the member has to give up partitions: its rebalance timeout. A running timer continues."""
    key = _key(_REVOCATION, group.group_id, member.member_id)
    if member.state is not MemberState.UNREVOKED_PARTITIONS:
        if group.revocation_epochs.pop(member.member_id, None) is not None:
            result.timers.append(TimerChange(key, None))
    elif group.revocation_epochs.get(member.member_id) != member.epoch:
        group.revocation_epochs[member.member_id] = member.epoch
        expire = _removal(key, group.group_id, member.member_id, member.epoch, "did not give up partitions in time")
        result.timers.append(TimerChange(key, member.rebalance_timeout_ms, expire))


def restart_timers(result: CoordinatorResult, group: ConsumerGroup, timeout_ms: int) -> None:
    """Start the timers after loading: all members have a whole session, and a whole rebalance timeout to give up partitions."""
    for member in group.members.values():
        restart_session(result, group.group_id, member, timeout_ms)
        if member.classic is None:
            restart_revocation(result, group, member)


def start_join_timer(result: CoordinatorResult, group_id: GroupId, member: ConsumerMember) -> None:
    """Start the time that a member of the classic protocol has to join again. A running timer continues."""
    key = _key(_JOIN, group_id, member.member_id)
    expire = _removal(key, group_id, member.member_id, None, "did not join again in time")
    result.timers.append(TimerChange(key, member.rebalance_timeout_ms, expire, is_kept=True))


def start_sync_timer(result: CoordinatorResult, group_id: GroupId, member: ConsumerMember) -> None:
    """Start the time that a member of the classic protocol has to send a SyncGroup, because it has joined."""
    result.timers.append(TimerChange(_key(_JOIN, group_id, member.member_id), None))
    key = _key(_SYNC, group_id, member.member_id)
    expire = _removal(key, group_id, member.member_id, None, "did not send a SyncGroup in time")
    result.timers.append(TimerChange(key, member.rebalance_timeout_ms, expire))


def end_sync_timer(result: CoordinatorResult, group_id: GroupId, member: ConsumerMember) -> None:
    """Stop the time that the member has to send a SyncGroup, because it has done so."""
    result.timers.append(TimerChange(_key(_SYNC, group_id, member.member_id), None))


def _removal(key: tuple[str, str, str], group_id: GroupId, member_id: MemberId, epoch: MemberEpoch | None, why: str) -> Operation:
    """Return an operation that removes the member; if `epoch` is not None, only if the member still has partitions to give up in
    that epoch. `key` is the key of the timer.
    """

    def remove(shard: GroupShard, now_ms: int) -> CoordinatorResult:
        group = shard.consumer_groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return CoordinatorResult()
        if epoch is not None and (member.state is not MemberState.UNREVOKED_PARTITIONS or member.epoch != epoch):
            return CoordinatorResult()
        logger.info("Group %s: member %s %s; it is removed", group_id, member_id, why)
        result = remove_members(shard, group, [member], now_ms)
        finish_removal = result.on_durable

        def on_durable(code: ErrorCode, now_ms: int) -> CoordinatorResult | Pausing[CoordinatorResult]:
            if code:
                return CoordinatorResult(timers=[TimerChange(key, RETRY_MS, remove)])
            assert finish_removal is not None
            return finish_removal(code, now_ms)

        result.on_durable = on_durable
        return result

    return remove


def remove_members(
    shard: GroupShard, group: ConsumerGroup, leaving: Collection[ConsumerMember], now_ms: int
) -> CoordinatorResult:
    """Remove members. Their timers end when that is durable. The next heartbeat of any member makes the new target."""
    leaving_ids = {member.member_id for member in leaving}
    staying = {member_id: member for member_id, member in group.members.items() if member_id not in leaving_ids}
    finish: downgrade.FinishDowngrade | None = None
    if downgrade.is_due(shard, leaving, staying):
        result = downgrade.to_classic(group, staying, group.targets, epoch=group.epoch, now_ms=now_ms)
        finish = downgrade.FinishDowngrade(shard, group.group_id, staying)
    else:
        group.image = None
        result = CoordinatorResult()
        for member_id in sorted(leaving_ids):
            result.records += member_tombstones(group.group_id, member_id)
        if not staying:
            result.records += [regex_tombstone(group.group_id, regex) for regex in group.regexes]
        if leaving_ids:
            result.records.append(epoch_record(group.group_id, group_epoch(group.epoch + 1)))
    without_timers = sorted(leaving_ids if finish is None else leaving_ids | staying.keys())

    def on_durable(code: ErrorCode, now_ms: int) -> CoordinatorResult:
        follow_up = CoordinatorResult() if finish is None else finish(code, now_ms)
        current = shard.consumer_groups.get(group.group_id)
        for member_id in () if code else without_timers:
            if current is None or member_id not in current.members:  # otherwise the member has joined again meanwhile
                group.revocation_epochs.pop(member_id, None)
                follow_up.timers += stop_timers(group.group_id, member_id)
        return follow_up

    result.on_durable = on_durable
    return result
