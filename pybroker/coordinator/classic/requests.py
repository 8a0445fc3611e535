"""The requests of members to a classic group, or to a group that does not exist yet.

Source: GroupMetadataManager.classicGroupJoin and its siblings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.coordinator.classic.heartbeat import heartbeat
from pybroker.coordinator.classic.join import JoinRequest, join
from pybroker.coordinator.classic.leave import leave
from pybroker.coordinator.classic.sync import sync

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.result import CoordinatorResult, Respond
    from pybroker.coordinator.shard import GroupShard
    from pybroker.protocol.messages.heartbeat import HeartbeatRequest
    from pybroker.protocol.messages.leave_group import LeaveGroupRequest
    from pybroker.protocol.messages.sync_group import SyncGroupRequest


class ClassicGroupRequests:
    """`GroupRequests` to the classic groups of a shard."""

    __slots__ = ("_shard",)

    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard

    def join(self, request: JoinRequest, now_ms: int) -> CoordinatorResult:
        """See `join`."""
        return join(self._shard, request, now_ms)

    def sync(self, request: SyncGroupRequest, respond: Respond, _now_ms: int) -> CoordinatorResult:
        """See `sync`."""
        return sync(self._shard, request, respond)

    def heartbeat(self, request: HeartbeatRequest, _now_ms: int) -> CoordinatorResult:
        """See `heartbeat`."""
        return heartbeat(self._shard, request)

    def leave(self, request: LeaveGroupRequest, now_ms: int) -> CoordinatorResult:
        """See `leave`."""
        return leave(self._shard, request, now_ms)
