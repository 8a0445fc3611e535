"""The requests of members to a classic group, or to a group that does not exist yet; its timers and waiting requests.

Source: GroupMetadataManager.classicGroupJoin and its siblings, onLoaded, onUnloaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.coordinator.classic import rebalance
from pybroker.coordinator.classic.heartbeat import heartbeat
from pybroker.coordinator.classic.join import join
from pybroker.coordinator.classic.leave import leave
from pybroker.coordinator.classic.sync import sync
from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.coordinator.state.classic_group import GroupState

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.result import ParkedResponse, Respond
    from pybroker.coordinator.state.group import JoinRequest
    from pybroker.coordinator.state.shard import GroupShard
    from pybroker.model import GroupId, MemberId
    from pybroker.protocol.error_codes import ErrorCode
    from pybroker.protocol.messages.heartbeat import HeartbeatRequest
    from pybroker.protocol.messages.leave_group import LeaveGroupRequest
    from pybroker.protocol.messages.sync_group import SyncGroupRequest
    from pybroker.sharing.work import Pausing


class ClassicGroupRequests:
    """`GroupRequests` to a classic group of a shard."""

    __slots__ = ("_group_id", "_shard")

    def __init__(self, shard: GroupShard, group_id: GroupId) -> None:
        self._shard = shard
        self._group_id = group_id

    def make_way(self, _request: JoinRequest) -> CoordinatorResult:
        """Return nothing to do, because a classic group remains when a member joins."""
        return CoordinatorResult()

    def join(self, request: JoinRequest, now_ms: int) -> CoordinatorResult:
        """Serve a JoinGroup; the function of the same name describes it."""
        return join(self._shard, request, now_ms)

    def sync(self, request: SyncGroupRequest, respond: Respond, _now_ms: int) -> CoordinatorResult | Pausing[CoordinatorResult]:
        """Serve a SyncGroup; the function of the same name describes it."""
        return sync(self._shard, request, respond)

    def heartbeat(self, request: HeartbeatRequest, _now_ms: int) -> CoordinatorResult:
        """Serve a Heartbeat; the function of the same name describes it."""
        return heartbeat(self._shard, request)

    def leave(self, request: LeaveGroupRequest, now_ms: int) -> CoordinatorResult:
        """Serve a LeaveGroup; the function of the same name describes it."""
        return leave(self._shard, request, now_ms)

    def note_commit(self, result: CoordinatorResult, member_id: MemberId) -> None:
        """Start the session of a member that commits again in `result`, because it is alive."""
        group = self._shard.classic_groups.get(self._group_id)
        if group is not None and (member := group.members.get(member_id)) is not None:
            rebalance.restart_session(result, group, member)

    def resume(self, result: CoordinatorResult, now_ms: int) -> None:
        """Start every session in `result`, and a rebalance if the group is stable and too large."""
        group = self._shard.classic_groups[self._group_id]
        for member in group.members.values():
            rebalance.restart_session(result, group, member)
        if group.state is GroupState.STABLE and len(group.members) > self._shard.settings.max_size:
            rebalance.prepare(self._shard, result, group, now_ms)

    def refuse_waiting(self, code: ErrorCode) -> list[ParkedResponse]:
        """Return the responses, with this code, to the JoinGroup and SyncGroup requests that wait."""
        group = self._shard.classic_groups[self._group_id]
        return [
            refusal
            for member in group.members.values()
            for refusal in rebalance.refuse_waiting(group, member, code, member_id=member.member_id)
        ]
