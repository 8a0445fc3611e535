"""Watches what happens to groups: which event leads from which state to which.

An event is a request, the end of a timer, the loading of a partition, or the moment when the log has taken or refused the records
of an operation. An event that begins within another one, as the log's response often does, counts by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pybroker.coordinator.runtime import runtime
from pybroker.coordinator.runtime.active import ShardTimer
from pybroker.coordinator.service import GroupCoordinator
from pybroker.coordinator.state.group import Group, GroupType
from pybroker.coordinator.state.shard import GroupShard

NO_GROUP = "none"
DEAD = "Dead"

States = dict[str, str]
"""The state of each group of a kind, by name."""

REQUESTS: dict[str, tuple[str, Callable[[Any], list[str]]]] = {
    "join": ("JoinGroup", lambda args: [args[0].group_id]),
    "sync": ("SyncGroup", lambda args: [args[0].group_id]),
    "heartbeat": ("Heartbeat", lambda args: [args[0].group_id]),
    "leave": ("LeaveGroup", lambda args: [args[0].group_id]),
    "consumer_heartbeat": ("ConsumerGroupHeartbeat", lambda args: [args[0].group_id]),
    "commit": ("OffsetCommit", lambda args: [args[0].group_id]),
    "delete_offsets": ("OffsetDelete", lambda args: [args[0]]),
    "delete_groups": ("DeleteGroups", lambda args: list(args[0])),
}
"""The methods of the coordinator that serve requests, with the request's name and the groups that it is about."""

TIMERS = {
    "session": "session ends",
    "join": "time to join ends",
    "sync": "time to sync ends",
    "clean up": "clean-up",
    "consumer session": "session ends",
    "consumer revocation": "time to revoke ends",
    "consumer join": "time to join ends",
    "consumer sync": "time to sync ends",
}
"""The name of the event, by the kind of the timer."""


class Events:
    """Everything that happened to groups of one kind.

    `seen` has, for each event and each state that a group had before it, the states that groups had after it: the same state only
    for requests. A group that begins comes from `none`; a group that ends is Dead.
    """

    def __init__(self, kind: GroupType, patch: pytest.MonkeyPatch) -> None:
        self.kind = kind
        self.seen: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._under_way: list[tuple[str, list[str], Callable[[], States]]] = []
        self._before: States = {}
        for method, (name, groups_of) in REQUESTS.items():
            self._watch_request(patch, method, name, groups_of)
        self._watch_timers(patch)
        self._watch_loading(patch)
        self._watch_records(patch)

    @contextmanager
    def during(self, name: str, group_ids: list[str], states: Callable[[], States]) -> Iterator[None]:
        self._note()
        self._under_way.append((name, group_ids, states))
        self._before = states()
        yield
        self._note()
        self._under_way.pop()
        if self._under_way:
            self._before = self._under_way[-1][2]()

    def _note(self) -> None:
        """Note what the event that is under way has done since it began, or since another one within it has ended."""
        if not self._under_way:
            return
        name, group_ids, states = self._under_way[-1]
        after = states()
        for group_id in self._before.keys() | after.keys():
            old, new = self._before.get(group_id, NO_GROUP), after.get(group_id, DEAD)
            if old != new or group_id in group_ids:
                self.seen[name, old].add(new)

    def _states(self, groups: Iterator[Group]) -> States:
        return {group.group_id: group.state_name for group in groups if group.type is self.kind}

    def _of_shard(self, shard: GroupShard) -> States:
        return self._states(shard.all_groups())

    def _watch_request(self, patch: pytest.MonkeyPatch, method: str, name: str, groups_of: Callable[[Any], list[str]]) -> None:
        original = getattr(GroupCoordinator, method)

        def watched(coordinator: GroupCoordinator, *args: Any, **more: Any) -> None:
            def states() -> States:
                return self._states(group for shard in coordinator.runtime.shards for group in shard.all_groups())

            with self.during(name, groups_of(args), states):
                original(coordinator, *args, **more)

        patch.setattr(GroupCoordinator, method, watched)

    def _watch_timers(self, patch: pytest.MonkeyPatch) -> None:
        original = ShardTimer.expire

        def watched(timer: Any) -> None:
            kind = timer._key if isinstance(timer._key, str) else timer._key[0]
            with self.during(TIMERS[kind], [], lambda: self._of_shard(timer._active.shard)):
                original(timer)

        patch.setattr(ShardTimer, "expire", watched)

    def _watch_loading(self, patch: pytest.MonkeyPatch) -> None:
        original = GroupCoordinator._first_operation

        def watched(coordinator: GroupCoordinator, shard: GroupShard, now_ms: int) -> Any:
            with self.during("loaded", [], lambda: self._of_shard(shard)):
                return (yield from original(coordinator, shard, now_ms))

        patch.setattr(GroupCoordinator, "_first_operation", watched)

    def _watch_records(self, patch: pytest.MonkeyPatch) -> None:
        original = runtime.follow

        def watched(on_durable: Any, code: Any, shard: Any, now_ms: int) -> Any:
            with self.during("records refused" if code else "records durable", [], lambda: self._of_shard(shard)):
                return original(on_durable, code, shard, now_ms)

        patch.setattr(runtime, "follow", watched)
