"""A group comes to rest, whatever its members do: a stable generation with every live member, and every partition owned once.

What members do and when is random. It is drawn from a seed, because hypothesis prefers short stories, in which little happens. It
is also chosen by hypothesis, which makes the story of a failure short. And it happens with as many members as a large group has.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from testing.scenes.api.whole import Whole
from tests.coordinator.classic.group_clients import GROUP, World, random_steps

CLIENTS = 8
PARTITIONS = 12
STEPS_COUNT = 60

MANY_CLIENTS = 500
MANY_PARTITIONS = 1000


async def play(seed: int, folder: Path) -> None:
    world = await World(CLIENTS, PARTITIONS).begin(folder)
    for what, value in random_steps(Random(seed), STEPS_COUNT, CLIENTS):
        await world.do(what, value)
    await world.rest()
    world.end()


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32))
def test_a_group_comes_to_rest(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(seed, Path(folder)))


class Groups(RuleBasedStateMachine):
    """A rule for each thing that can happen; `World.check` runs after each rule, and at the end the group must come to rest."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._runner = asyncio.Runner()
        self._world = World(4, 6)

    @initialize()
    def begin(self) -> None:
        self._runner.run(self._world.begin(Path(self._folder.name)))

    @rule(client=st.integers(0, 3), what=st.sampled_from(["start", "start", "die", "leave", "doze"]))
    def one_acts(self, client: int, what: str) -> None:
        self._runner.run(self._world.do(what, client))

    @rule(rounds=st.integers(1, 12))
    def all_live(self, rounds: int) -> None:
        self._runner.run(self._world.do("live", rounds))

    @rule(milliseconds=st.integers(1, 12_000))
    def no_client_acts(self, milliseconds: int) -> None:
        self._runner.run(self._world.do("wait", milliseconds))

    @rule()
    def the_broker_restarts(self) -> None:
        self._runner.run(self._world.do("restart", 0))

    def teardown(self) -> None:
        try:
            if hasattr(self._world, "whole"):
                self._runner.run(self._world.rest())
                self._world.end()
        finally:
            self._runner.close()
            self._folder.cleanup()


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=12, stateful_step_count=20, deadline=None)


async def test_five_hundred_members_come_leave_and_die(tmp_path: Path) -> None:
    random = Random(848)
    world = await World(MANY_CLIENTS, MANY_PARTITIONS, step_ms=2000).begin(tmp_path)
    for client in world.clients:
        client.start()
    await world.rest(10_000)
    for _ in range(4):
        for client in random.sample(world.clients, 60):
            if not client.is_alive:
                client.start()
            elif random.random() < 0.5:
                client.leave()
            else:
                client.die()
            if random.random() < 0.05:
                await world.live(1)
        await world.rest(30_000)
    assert 0 < len(world.living) < MANY_CLIENTS
    assert world.generations >= 5
    world.end()


COMMITS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from("gh"), st.integers(0, 2), st.integers(0, 100)),
        st.tuples(st.just("restart"), st.just(""), st.just(0), st.just(0)),
        st.tuples(st.just("wait"), st.just(""), st.just(0), st.integers(0, 50)),
    ),
    max_size=40,
)


async def commit_and_restart(steps: list[tuple[str, str, int, int]], folder: Path) -> None:
    """Check that a restart at any moment knows exactly what was acknowledged and has not expired."""
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


@settings(max_examples=20, deadline=None)
@given(COMMITS)
def test_a_restart_knows_what_was_acknowledged(steps: list[tuple[str, str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(commit_and_restart(steps, Path(folder)))
