"""Wherever a crash cuts the log of groups, the broker loads what it had acknowledged by then: no less, and no more.

The test notes what was acknowledged from the responses alone; each batch of the log belongs to a single response.
"""

from __future__ import annotations

import asyncio
import copy
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.coordinator.loading import replay_batch
from pybroker.coordinator.runtime.loader import replay_log
from pybroker.coordinator.state.shard import GroupShard
from pybroker.log.log import Log
from pybroker.log.segments.fetched_records import FetchedRecords
from pybroker.model import Offset, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from testing.scenes.api.whole import Whole

TOPIC = "t"
PARTITIONS = 3
OPERATIONS = 80

Offsets = dict[tuple[str, int], tuple[int, str]]
Group = tuple[str, int, dict[str, tuple[str | None, bytes]]]
"""State, generation, and each member's instance and assignment."""


class Story:
    """Random requests, and what their responses promise. `promised` has a copy for each end of the log."""

    def __init__(self, whole: Whole, random: Random) -> None:
        self.whole = whole
        self.random = random
        self.offsets: Offsets = {}
        self.groups: dict[str, Group] = {}
        """Return the groups, with those that never had anything but offsets: Empty in generation 0."""
        self.log = whole.replicas.partition_or_raise(TopicPartition("__consumer_offsets", 0)).log
        self.promised: dict[int, tuple[Offsets, dict[str, Group]]] = {}
        self.promise()

    def promise(self) -> None:
        self.promised[self.log.log_end_offset] = (dict(self.offsets), copy.deepcopy(self.groups))

    async def step(self, number: int) -> None:
        group = self.random.choice(["a", "b"])
        what = self.random.choice([self.commit, self.commit, self.commit, self.come, self.leave, self.delete, self.forget])
        await what(group, number)
        self.promise()

    async def commit(self, group: str, number: int) -> None:
        partitions = self.random.sample(range(PARTITIONS), self.random.randint(1, PARTITIONS))
        member_id = next(iter(self.groups[group][2]), "") if group in self.groups else ""
        response = await self.whole.ask(
            OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=self.groups[group][1] if member_id else -1,
                member_id=member_id,
                topics=[
                    OffsetCommitRequestTopic(
                        name=TOPIC,
                        partitions=[
                            OffsetCommitRequestPartition(partition_index=p, committed_offset=number, committed_metadata=f"at {p}")
                            for p in partitions
                        ],
                    )
                ],
            ),
            8,
        )
        assert not any(one.error_code for one in response.topics[0].partitions)
        self.groups.setdefault(group, ("Empty", 0, {}))
        self.offsets |= {(group, partition): (number, f"at {partition}") for partition in partitions}

    async def come(self, group: str, number: int) -> None:
        """Let a member join, or start again if it is in the group, which in a stable group only gives it a new id."""
        is_static = group == "b"
        if not is_static:
            await self.leave(group, number)
            self.promise()
        state, generation, members = self.groups.get(group, ("Empty", 0, {}))
        dies = state == "Empty" and self.random.random() < 0.2  # before it brings its assignment
        protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(6))
        joined = await self.whole.ask(
            JoinGroupRequest(
                group_id=group, session_timeout_ms=6_000 if dies else 1_800_000, rebalance_timeout_ms=10_000,
                protocol_type="consumer", group_instance_id="i" if is_static else None, protocols=[protocol],
            ),
            5 if is_static else 3,
        )  # fmt: skip
        assert joined.error_code == 0
        instance = "i" if is_static else None
        if state == "Stable":  # promised by this response
            ((_, (_, assignment)),) = members.items()
            self.groups[group] = (state, generation, {joined.member_id: (instance, assignment)})
            assert joined.generation_id == generation
            return
        assert joined.generation_id > generation
        self.promise()
        request = SyncGroupRequest(
            group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, group_instance_id=instance,
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"%d" % number)],
        )  # fmt: skip
        if dies:
            self.whole.pass_time(7_000)
            self.groups[group] = ("Empty", joined.generation_id + 1, {})
            return
        end_sync_timer = await self.whole.ask(request, 3)
        assert (end_sync_timer.error_code, end_sync_timer.assignment) == (0, b"%d" % number)
        self.groups[group] = ("Stable", joined.generation_id, {joined.member_id: (instance, b"%d" % number)})

    async def leave(self, group: str, _number: int) -> None:
        _, generation, members = self.groups.get(group, ("Empty", 0, {}))
        for member_id in members:
            request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id)])
            assert (await self.whole.ask(request, 3)).members[0].error_code == 0
            self.groups[group] = ("Empty", generation + 1, {})

    async def delete(self, group: str, _number: int) -> None:
        response = await self.whole.ask(DeleteGroupsRequest(groups_names=[group]), 2)
        if response.results[0].error_code == ErrorCode.NONE:
            self.groups.pop(group, None)
            self.offsets = {where: what for where, what in self.offsets.items() if where[0] != group}

    async def forget(self, group: str, _number: int) -> None:
        partition = self.random.randrange(PARTITIONS)
        topic = OffsetDeleteRequestTopic(name=TOPIC, partitions=[OffsetDeleteRequestPartition(partition_index=partition)])
        response = await self.whole.ask(OffsetDeleteRequest(group_id=group, topics=[topic]), 0)
        if not response.error_code and not response.topics[0].partitions[0].error_code:
            self.offsets.pop((group, partition), None)


class CutLog:
    """A log that ends at an earlier offset."""

    def __init__(self, log: Log, end_offset: int) -> None:
        self.topic_partition = log.topic_partition
        self.log_start_offset = log.log_start_offset
        self.log_end_offset = end_offset
        self._log = log

    def read(self, offset: int, **limits: Any) -> FetchedRecords:
        return self._log.read(Offset(offset), **limits)


def loaded(story: Story, end_offset: int) -> tuple[Offsets, dict[str, Group]]:
    shard = GroupShard(next(iter(story.whole.groups.runtime.shards)).settings)
    for _ in replay_log(shard, CutLog(story.log, end_offset), replay_batch, bytes_max=1000):  # type: ignore[arg-type]  # what is read of a log
        pass
    offsets: Offsets = {
        (group, partition): (committed.offset, committed.metadata)
        for group, topics in shard.offsets.items()
        for partition, committed in topics[TOPIC].items()
    }
    groups: dict[str, Group] = {
        name: (
            group.state.value,
            group.generation_id,
            {member.member_id: (member.group_instance_id, member.assignment) for member in group.members.values()},
        )
        for name, group in shard.classic_groups.items()
    }
    return offsets, groups


async def cut_everywhere(seed: int, folder: Path) -> None:
    whole = await Whole(folder, offsets_topic_num_partitions=1).start()
    await whole.create(TOPIC, PARTITIONS)
    await whole.ask(FindCoordinatorRequest(key="g"), 3)
    story = Story(whole, Random(seed))
    for number in range(OPERATIONS):
        await story.step(number)
    assert len(story.promised) > OPERATIONS / 4
    for end_offset, (offsets, groups) in story.promised.items():
        assert loaded(story, end_offset) == (offsets, groups), end_offset
    whole.logs.stop()


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_loaded_is_what_was_acknowledged(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(cut_everywhere(seed, Path(folder)))
