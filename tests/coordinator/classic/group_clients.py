"""Simulated consumers of a group, without sockets and with no time but the manual clock's, and what must hold at any moment.

A client behaves as a real client does: it joins when a response wants it, assigns partitions when it is the leader, dies
without a word or leaves, and starts again; a static client comes back under its instance id.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

from pybroker.coordinator.state.classic_group import ClassicGroup, GroupState
from pybroker.model import GroupId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from pybroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from testing.scenes.api.whole import Whole

GROUP = "g"
SESSION_MS = 6_000
REBALANCE_MS = 10_000

FORGET = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}


class Client:
    """A consumer. `act` does what its next poll would do."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.instance = f"i{number}" if number % 4 == 0 else None
        self.is_alive = False
        self.is_dozing = False  # sends heartbeats, but does not poll, so it does not join when a response wants it
        self.forget()

    def forget(self) -> None:
        self.member_id, self.generation = "", -1
        self.phase = "join"
        self.owned: frozenset[int] = frozenset()
        self.waiting: asyncio.Future[Any] | None = None
        self.members: list[str] = []

    def rejoin(self) -> None:
        """Give up what the client has before it joins, so that no other client gets what this one still reads."""
        self.owned, self.phase = frozenset(), "join"

    def die(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
        self.is_alive = False
        self.forget()

    def start(self) -> None:
        self.is_alive, self.is_dozing = True, False

    def doze(self) -> None:
        self.is_dozing = True

    def act(self) -> None:
        if self.waiting is not None or not self.is_alive:
            return
        if self.phase == "join" and not (self.is_dozing and self.generation >= 0):
            request: Any = JoinGroupRequest(
                group_id=GROUP, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS, member_id=self.member_id,
                group_instance_id=self.instance, protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(6))],
            )  # fmt: skip
            self._send(request, 9, self._joined)
        elif self.phase == "sync" and not self.is_dozing:
            share = {name: range(n, self.world.partition_count, len(self.members)) for n, name in enumerate(self.members)}
            request = SyncGroupRequest(
                group_id=GROUP, generation_id=self.generation, member_id=self.member_id, group_instance_id=self.instance,
                protocol_type="consumer", protocol_name="range",
                assignments=[SyncGroupRequestAssignment(member_id=name, assignment=packed(of)) for name, of in share.items()],
            )  # fmt: skip
            self._send(request, 5, self._synced)
        else:
            request = HeartbeatRequest(
                group_id=GROUP, generation_id=self.generation, member_id=self.member_id, group_instance_id=self.instance
            )
            self._send(request, 4, self._beaten)

    def leave(self) -> None:
        """Leave the group. If a request waits, the client's connection breaks before it can send a LeaveGroup."""
        if self.is_alive and self.member_id and self.waiting is None:
            identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
            self._send(LeaveGroupRequest(group_id=GROUP, members=[identity]), 5, lambda _: None)
        self.die()

    def _send(self, request: object, version: int, then: Any) -> None:
        response = self.world.whole.send(request, version, f"c{self.number}")
        if isinstance(response, asyncio.Future):
            self.waiting = response

            def done(future: asyncio.Future[Any]) -> None:
                if not future.cancelled() and self.waiting is future:
                    self.waiting = None
                    then(self.world.whole.read(future.result(), request, version))

            response.add_done_callback(done)
        else:
            then(self.world.whole.read(response, request, version))

    def _joined(self, response: Any) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif response.error_code in FORGET:
            self.forget()
        elif response.error_code:
            return  # comes again
        else:
            self.member_id, self.generation = response.member_id, response.generation_id
            self.members = [member.member_id for member in response.members]
            self.owned = frozenset()
            self.phase = "sync"

    def _synced(self, response: Any) -> None:
        if response.error_code in FORGET:
            self.forget()
        elif response.error_code:
            self.rejoin()
        else:
            self.owned = frozenset(unpacked(response.assignment))
            self.world.assigned(self)
            self.phase = "beat"

    def _beaten(self, response: Any) -> None:
        if response.error_code in FORGET:
            self.forget()
        elif response.error_code:
            self.rejoin()


def packed(partitions: range) -> bytes:
    return b"".join(partition.to_bytes(2) for partition in partitions)


def unpacked(assignment: bytes) -> list[int]:
    return [int.from_bytes(assignment[at : at + 2]) for at in range(0, len(assignment), 2)]


class World:
    """A broker and the clients of a group.

    Start with `begin`; `do` is an event, `live` lets time pass in which all clients act.
    """

    def __init__(self, client_count: int, partition_count: int, *, step_ms: int = 500) -> None:
        self.partition_count = partition_count
        self._step_ms = step_ms
        self.clients = [Client(self, number) for number in range(client_count)]
        self.generations = 0  # in which a member was assigned something
        self._assigned_generation = 0

    async def begin(self, folder: Path) -> World:
        self.whole = await Whole(folder, offsets_topic_num_partitions=1).start()
        await self.whole.ask(FindCoordinatorRequest(key=GROUP), 3)
        return self

    def end(self) -> None:
        self.whole.logs.stop()

    @property
    def group(self) -> ClassicGroup | None:
        return next(
            (shard.classic_groups[GroupId(GROUP)] for shard in self.whole.groups.runtime.shards if GROUP in shard.classic_groups),
            None,
        )

    @property
    def living(self) -> list[Client]:
        return [client for client in self.clients if client.is_alive]

    async def do(self, what: str, value: int) -> None:
        """Do one thing: `wait` or `live` for a time, `restart` the broker, or what a client can do."""
        if what == "wait":
            self.whole.pass_time(value)
        elif what == "live":
            await self.live(value)
        elif what == "restart":
            self.whole.serve()
        else:
            getattr(self.clients[value], what)()
        await turn()
        self.check()

    async def live(self, rounds: int) -> None:
        """Let a step of time pass in each round; in each step every client acts."""
        for _ in range(rounds):
            for client in self.clients:
                client.act()
            await turn()
            self.whole.pass_time(self._step_ms)
            await turn()
            self.check()

    async def rest(self, milliseconds: int = 40_000) -> None:
        """Let clients that are alive continue until the broker has removed the dead ones, then check the group."""
        for client in self.clients:
            client.is_dozing = False
        await self.live(milliseconds // self._step_ms)
        self.check_at_rest()

    def assigned(self, client: Client) -> None:
        """Check that no generation that had assignments appears again, even after a restart: assignments are durable."""
        assert client.generation >= self._assigned_generation, f"{client.generation} after {self._assigned_generation}"
        self.generations += client.generation > self._assigned_generation
        self._assigned_generation = client.generation

    def check(self) -> None:
        """Check what must hold at any moment: the group's counts are right, and in its generation no partition is owned twice."""
        group = self.group
        if group is None:
            return
        assert group.awaiting_join_count == sum(member.awaiting_join is not None for member in group.members.values())
        assert set(group.static_members.values()) == {m.member_id for m in group.members.values() if m.group_instance_id}
        assert group.protocol_counts["range"] == len(group.members)
        assert group.leader_id in group.members or (group.leader_id is None and not group.members)
        assert group.pending_syncs <= group.members.keys()
        assert not group.pending_joins & group.members.keys()
        assert bool(group.members) or group.state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)
        owned = [
            partition
            for client in self.clients
            if client.generation == group.generation_id and client.member_id in group.members
            for partition in client.owned
        ]
        assert len(owned) == len(set(owned)), "a partition has two owners in one generation"

    def check_at_rest(self) -> None:
        group, living = self.group, self.living
        if not living:
            assert group is None or group.state is GroupState.EMPTY
            return
        assert group is not None
        assert group.state is GroupState.STABLE
        assert group.members.keys() == {client.member_id for client in living}
        assert {client.generation for client in living} == {group.generation_id}
        owned = [partition for client in living for partition in client.owned]
        assert sorted(owned) == list(range(self.partition_count)), "every partition is owned once"


async def turn() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


WHAT = ("start",) * 4 + ("die", "leave", "doze", "restart", "wait") + ("live",) * 6


def random_steps(random: Random, count: int, client_count: int) -> list[tuple[str, int]]:
    """Draw steps for `World.do`."""
    steps = []
    for _ in range(count):
        what = random.choice(WHAT)
        most = {"wait": SESSION_MS, "live": 30}.get(what, client_count - 1)
        steps.append((what, random.randint(0, most)))
    return steps
