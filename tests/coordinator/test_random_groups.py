"""Whatever members do, a group comes to rest: one stable generation, everybody in it, what is owned owned once.

Clients here behave as real ones do: they join when they are told to, the leader shares the partitions, they die without a word,
they start anew. What they do and when is random; the clock is manual.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.coordinator.classic_group import ClassicGroup, GroupState
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from pybroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.api.whole import Whole

GROUP = "g"
PARTITIONS = 12
SESSION_MS = 6_000
REBALANCE_MS = 10_000
CLIENTS = 8

FORGET = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}


class Client:
    """One consumer. `act` is what its next poll would do."""

    def __init__(self, whole: Whole, number: int) -> None:
        self.whole = whole
        self.number = number
        self.instance = f"i{number}" if number % 4 == 0 else None
        self.is_alive = False
        self.is_dozing = False  # sends heartbeats, but does not poll, so it does not join when it is told to
        self.forget()

    def forget(self) -> None:
        self.member_id, self.generation = "", -1
        self.phase = "join"
        self.owned: frozenset[int] = frozenset()
        self.waiting: asyncio.Future[Any] | None = None
        self.members: list[str] = []

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
            share = {name: [p for p in range(PARTITIONS) if p % len(self.members) == n] for n, name in enumerate(self.members)}
            request = SyncGroupRequest(
                group_id=GROUP, generation_id=self.generation, member_id=self.member_id, group_instance_id=self.instance,
                protocol_type="consumer", protocol_name="range",
                assignments=[SyncGroupRequestAssignment(member_id=name, assignment=bytes(of)) for name, of in share.items()],
            )  # fmt: skip
            self._send(request, 5, self._synced)
        else:
            request = HeartbeatRequest(
                group_id=GROUP, generation_id=self.generation, member_id=self.member_id, group_instance_id=self.instance
            )
            self._send(request, 4, self._beaten)

    def leave(self) -> None:
        if self.is_alive and self.member_id and self.waiting is None:
            identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
            self._send(LeaveGroupRequest(group_id=GROUP, members=[identity]), 5, lambda _: None)
        self.die()

    def _send(self, request: object, version: int, then: Any) -> None:
        answer = self.whole.send(request, version, f"c{self.number}")
        if isinstance(answer, asyncio.Future):
            self.waiting = answer

            def done(future: asyncio.Future[Any]) -> None:
                if not future.cancelled() and self.waiting is future:
                    self.waiting = None
                    then(self.whole.read(future.result(), request, version))

            answer.add_done_callback(done)
        else:
            then(self.whole.read(answer, request, version))

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
            self.phase = "join"
        else:
            self.owned = frozenset(response.assignment)
            self.phase = "beat"

    def _beaten(self, response: Any) -> None:
        if response.error_code in FORGET:
            self.forget()
        elif response.error_code:
            self.phase = "join"


WHAT = ("start",) * 4 + ("die", "leave", "doze", "restart", "wait") + ("live",) * 6
STEPS_COUNT = 60


def random_steps(seed: int) -> list[tuple[str, int]]:
    """Long stories: drawn from a seed, because hypothesis prefers short lists, in which little happens."""
    random = Random(seed)
    steps = []
    for _ in range(STEPS_COUNT):
        what = random.choice(WHAT)
        most = {"wait": SESSION_MS, "live": 30}.get(what, CLIENTS - 1)
        steps.append((what, random.randint(0, most)))
    return steps


def group_of(whole: Whole) -> ClassicGroup | None:
    return next((shard.groups[GROUP] for shard in whole.groups.runtime.shards if GROUP in shard.groups), None)


async def turn() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


async def play(steps: list[tuple[str, int]], folder: Path) -> None:
    whole = await Whole(folder, offsets_topic_num_partitions=1).start()
    await whole.ask(FindCoordinatorRequest(key=GROUP), 3)
    clients = [Client(whole, number) for number in range(CLIENTS)]
    for what, value in steps:
        if what == "wait":
            whole.pass_time(value)
        elif what == "live":
            await live(whole, clients, value)
        elif what == "restart":
            whole.serve()
        else:
            getattr(clients[value], what)()
        await turn()
        check_consistent(whole)
    for client in clients:
        client.is_dozing = False
    await live(whole, clients, 80)  # 40 s in which those who live go on, and the dead are found out
    check_at_rest(whole, [client for client in clients if client.is_alive])
    whole.logs.stop()


async def live(whole: Whole, clients: list[Client], rounds: int) -> None:
    """Half a second per round, in which everybody does what it would."""
    for _ in range(rounds):
        for client in clients:
            client.act()
        await turn()
        whole.pass_time(500)
        await turn()
        check_consistent(whole)


def check_consistent(whole: Whole) -> None:
    """What the group counts is what is there."""
    group = group_of(whole)
    if group is None:
        return
    assert group.awaiting_join_count == sum(member.awaiting_join is not None for member in group.members.values())
    assert set(group.static_members.values()) == {m.member_id for m in group.members.values() if m.group_instance_id}
    assert group.protocol_counts["range"] == len(group.members)
    assert group.leader_id in group.members or (group.leader_id is None and not group.members)
    assert group.pending_syncs <= group.members.keys()
    assert not group.pending_joins & group.members.keys()
    assert bool(group.members) or group.state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)


def check_at_rest(whole: Whole, living: list[Client]) -> None:
    group = group_of(whole)
    if not living:
        assert group is None or group.state is GroupState.EMPTY
        return
    assert group is not None
    assert group.state is GroupState.STABLE
    assert group.members.keys() == {client.member_id for client in living}
    assert {client.generation for client in living} == {group.generation_id}
    owned = [partition for client in living for partition in client.owned]
    assert sorted(owned) == list(range(PARTITIONS)), "every partition is owned once"


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_a_group_comes_to_rest(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(random_steps(seed), Path(folder)))


COMMITS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from("gh"), st.integers(0, 2), st.integers(0, 100)),
        st.tuples(st.just("restart"), st.just(""), st.just(0), st.just(0)),
        st.tuples(st.just("wait"), st.just(""), st.just(0), st.integers(0, 50)),
    ),
    max_size=40,
)


async def commit_and_restart(steps: list[tuple[str, str, int, int]], folder: Path) -> None:
    """At any moment a restart knows exactly what was acknowledged and has not expired."""
    whole = await Whole(
        folder, offsets_topic_num_partitions=2, offsets_retention_minutes=60, offsets_retention_check_interval_ms=60_000
    ).start()
    await whole.create("t", 3)
    await whole.ask(FindCoordinatorRequest(key=GROUP), 3)
    expected: dict[tuple[str, int], tuple[int, int]] = {}
    for what, group, partition, value in steps:
        if what == "restart":
            whole.serve()
        elif what == "wait":
            whole.pass_time(value * 60_000)
        else:
            one = OffsetCommitRequestPartition(partition_index=partition, committed_offset=value)
            topics = [OffsetCommitRequestTopic(name="t", partitions=[one])]
            response = await whole.ask(OffsetCommitRequest(group_id=group, topics=topics), 8)
            assert response.topics[0].partitions[0].error_code == 0
            expected[group, partition] = (value, whole.clock.time_ms())
    known = {
        (group, partition): committed.offset
        for shard in whole.groups.runtime.shards
        for group, topics in shard.offsets.items()
        for partition, committed in topics["t"].items()
    }
    now_ms = whole.clock.time_ms()
    fresh = {where: offset for where, (offset, since_ms) in expected.items() if now_ms - since_ms < 3_600_000}
    assert fresh.items() <= known.items()
    assert known.items() <= {where: offset for where, (offset, _) in expected.items()}.items()
    whole.serve()
    again = {
        (group, partition): committed.offset
        for shard in whole.groups.runtime.shards
        for group, topics in shard.offsets.items()
        for partition, committed in topics["t"].items()
    }
    assert again == known
    whole.logs.stop()


@settings(max_examples=40, deadline=None)
@given(COMMITS)
def test_a_restart_knows_what_was_acknowledged(steps: list[tuple[str, str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(commit_and_restart(steps, Path(folder)))
