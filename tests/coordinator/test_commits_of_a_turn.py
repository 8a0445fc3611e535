"""Commits that are gathered in a turn of the loop and appended in one batch do what they do when each is appended alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.coordinator.runtime.appender import Appender
from pybroker.model import TopicPartition
from pybroker.network.context import ConnectionContext
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
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
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from pybroker.records.batch import batches
from pybroker.replication.produce_data import REFUSED, PartitionProduceResult
from pybroker.replication.replica_manager import ReplicaManager
from testing.scenes.api.groups import GROUP, commit_request, join_request, member
from testing.scenes.api.whole import Whole, settled

OFFSETS = TopicPartition("__consumer_offsets", 0)
CONNECTIONS = 4
VERSION = 7
GROUPS = [GROUP, "simple", "simple", "new"]
ERRORS = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS]


async def start(folder: Path, later: list[Callable[[], None]] | None, **config: Any) -> tuple[Whole, str]:
    """Start a broker with a group of one member and a simple group; `later` gets what is to run at the end of a turn."""
    whole = await Whole(folder, offsets_topic_num_partitions=1, **config).start()
    await whole.create("t", 3)
    await whole.ask(FindCoordinatorRequest(key=GROUP), 0)
    member_id = await member(whole)
    await whole.ask(commit_request(group_id="simple"), VERSION)
    if later is not None:
        whole.groups.runtime._gathering._call_soon = later.append
    return whole, member_id


class Followed:
    """The holder of a request with others behind it on its connection."""

    has_next_request = True

    def hold_request(self, size: int) -> bool:
        raise AssertionError(f"a commit holds none of its {size} bytes")

    def release_request(self) -> None:
        raise AssertionError("nothing was held")


def send(whole: Whole, connection: int, request: object, version: int, *, is_followed: bool = False) -> Any:
    """Send a request on a connection; `is_followed`: others are there behind it."""
    whole.connection = ConnectionContext(connection_id=connection, local_host="127.0.0.1", local_port=9092)
    whole.connection.holder = Followed() if is_followed else None
    return whole.send(request, version)


def batch_sizes(whole: Whole) -> list[int]:
    """Return the number of records of each batch in the topic of offsets."""
    log = whole.replicas.partition_or_raise(OFFSETS).log
    data = log.read(log.log_start_offset, bytes_max=1 << 20, upper_offset=log.log_end_offset, min_one_batch=True).records
    return [batch.record_count for batch in batches(data if isinstance(data, bytes) else data.read(0, data.size))]


def everything(whole: Whole) -> object:
    """Return state, timers and records."""
    (active,) = whole.groups.runtime._active.values()
    log = whole.replicas.partition_or_raise(OFFSETS).log
    records = []
    if log.log_end_offset:
        data = log.read(log.log_start_offset, bytes_max=1 << 20, upper_offset=log.log_end_offset, min_one_batch=True).records
        found = batches(data if isinstance(data, bytes) else data.read(0, data.size))
        records = [(record.offset, record.timestamp, record.key, record.value) for batch in found for record in batch.records()]
    groups = {
        group.group_id: (group.state_name, group.type, sorted(getattr(group, "members", {})))
        for group in active.shard.all_groups()
    }
    timers = {key: timer.expiration_ms for key, timer in active.timers.items()}
    return records, groups, active.shard.offsets, timers, active.replayed_end_offset


@st.composite
def commits(draw: st.DrawFn) -> tuple[Any, ...]:
    partitions = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99), st.integers(0, 250)), min_size=1, max_size=3))
    group = draw(st.sampled_from(GROUPS))
    usual = "member" if group == GROUP else "outside"
    role = draw(st.sampled_from([usual, usual, usual, usual, "member", "outside", "stranger", "late"]))
    return "commit", draw(st.integers(0, CONNECTIONS - 1)), group, role, partitions, draw(st.integers(0, 4)) == 0


STEPS = st.one_of(
    commits(), commits(), commits(), commits(), commits(), commits(),
    st.sampled_from([("end",), ("fetch",), ("fetch",), ("forget",)]),
    st.sampled_from([("heartbeat",), ("join",), ("leave",), ("delete", "simple"), ("delete", "new")])
    | st.tuples(st.just("time"), st.sampled_from([1, 1000, 20_000]))
    | st.tuples(st.just("fail"), st.sampled_from([None, *ERRORS]))
    | st.sampled_from([("remove topic",), ("restart",)]),
)  # fmt: skip


class Player:
    """Plays a story on one broker."""

    def __init__(self, whole: Whole, member_id: str, later: list[Callable[[], None]]) -> None:
        self.whole, self.member_id, self.later = whole, member_id, later
        self.responses: list[Any] = []
        self.failure: ErrorCode | None = None
        self.parked: dict[int, Any] = {}

    def end_turn(self) -> None:
        while self.later:
            self.later.pop(0)()

    def ask(self, request: object, version: int, connection: int = 9, *, is_followed: bool = False) -> None:
        """Send a request, once the one before it on the connection has its response."""
        if connection in self.parked and not self.parked[connection].done():
            self.end_turn()
        outcome = send(self.whole, connection, request, version, is_followed=is_followed)
        if isinstance(outcome, asyncio.Future):
            self.parked[connection] = outcome
        self.responses.append(outcome)

    async def play(self, step: tuple[Any, ...]) -> None:
        match step:
            case "commit", connection, group, role, partitions, is_followed:
                self._commit(connection, group, role, partitions, is_followed=is_followed)
            case ("end",):
                self.end_turn()
            case ("heartbeat",):
                self.ask(HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=self.member_id), 3)
            case ("fetch",):
                groups = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in dict.fromkeys(GROUPS)]
                self.ask(OffsetFetchRequest(groups=groups), 8)
            case ("join",):
                self.ask(join_request(self.member_id), 3)
            case ("leave",):
                members = [MemberIdentity(member_id=self.member_id)]
                self.ask(LeaveGroupRequest(group_id=GROUP, members=members), 3)
            case "delete", group:
                self.ask(DeleteGroupsRequest(groups_names=[group]), 1)
            case ("forget",):
                topics = [OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
                self.ask(OffsetDeleteRequest(group_id="simple", topics=topics), 0)
            case "time", milliseconds:
                self.end_turn()
                self.whole.pass_time(milliseconds)
            case "fail", failure:
                self.end_turn()
                self.failure = failure
            case ("remove topic",):
                topic = self.whole.controller.image.topics.get("t")
                if topic is not None:
                    await self.whole.controller.delete_topics([topic.topic_id])
            case ("restart",):
                self.whole.groups.stop()
                self.whole.serve()
                if self.later is not ALONE:
                    self.whole.groups.runtime._gathering._call_soon = self.later.append

    def _commit(
        self, connection: int, group: str, role: str, partitions: list[tuple[int, int, int]], *, is_followed: bool
    ) -> None:
        generation = {"member": 1, "outside": -1, "stranger": 1, "late": 0}[role]
        asked = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="x" * size)
            for index, offset, size in partitions
        ]
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id={"outside": "", "stranger": "stranger"}.get(role, self.member_id),
            topics=[OffsetCommitRequestTopic(name="t", partitions=asked)],
        )
        self.ask(request, VERSION, connection, is_followed=is_followed)


ALONE: list[Callable[[], None]] = []
"""The end of the turn for a broker that gathers nothing: it comes at once."""


async def outcomes(story: list[tuple[Any, ...]], later: list[Callable[[], None]], folder: Path) -> tuple[list[Any], object]:
    whole, member_id = await start(folder, None if later is ALONE else later, message_max_bytes=450)
    player = Player(whole, member_id, later)
    original = ReplicaManager.append_one

    def append_one(manager: ReplicaManager, *args: Any) -> Any:
        if player.failure is None:
            return original(manager, *args)
        return PartitionProduceResult(player.failure), REFUSED

    with mock.patch.object(ReplicaManager, "append_one", append_one):
        for step in story:
            await player.play(step)
        player.end_turn()
        responses = [await settled(one) for one in player.responses if not isinstance(one, asyncio.Future) or one.done()]
    found = everything(whole)
    whole.groups.stop()
    return [bytes(one) if isinstance(one, bytes | bytearray | memoryview) else one for one in responses], found


@given(st.lists(STEPS, min_size=12, max_size=30))
@settings(deadline=None)
def test_they_do_what_they_do_one_by_one(story: list[tuple[Any, ...]]) -> None:
    async def both() -> None:
        with TemporaryDirectory() as first, TemporaryDirectory() as second:
            assert await outcomes(story, [], Path(first)) == await outcomes(story, ALONE, Path(second))

    asyncio.run(both())


def of_member(member_id: str, offset: int = 5) -> OffsetCommitRequest:
    return commit_request(offset=offset, generation_id_or_member_epoch=1, member_id=member_id)


async def test_the_commits_of_a_turn_are_one_batch(tmp_path: Path) -> None:
    later: list[Callable[[], None]] = []
    whole, member_id = await start(tmp_path, later)
    before = len(batch_sizes(whole))
    for offset, expected in ((5, [1, 3]), (6, [4])):
        responses = [send(whole, connection, of_member(member_id, offset), VERSION) for connection in range(4)]
        assert len(later) == 1
        later.pop()()
        assert batch_sizes(whole)[before:] == expected
        assert len({bytes(await settled(one)) for one in responses}) == 1
        before += len(expected)


async def test_a_commit_that_comes_alone_gets_its_response_at_once(tmp_path: Path) -> None:
    later: list[Callable[[], None]] = []
    whole, member_id = await start(tmp_path, later)
    for _ in range(3):
        assert isinstance(send(whole, 1, of_member(member_id), VERSION), bytes)
        later.pop()()
    several = [whole.send(of_member(member_id), VERSION) for _ in range(5)]
    assert all(isinstance(one, bytes) for one in several), "a connection that sends several does not wait for itself"


async def test_commits_with_others_behind_them_do_not_wait_for_other_connections(tmp_path: Path) -> None:
    later: list[Callable[[], None]] = []
    whole, member_id = await start(tmp_path, later)
    before = len(batch_sizes(whole))
    waiting = [send(whole, connection, of_member(member_id), VERSION) for connection in range(3)]
    for connection in (3, 4):
        pipeline = [send(whole, connection, of_member(member_id), VERSION, is_followed=True) for _ in range(3)]
        pipeline.append(whole.send(of_member(member_id), VERSION))
        assert all(isinstance(one, bytes) for one in pipeline), "one of them waits, so those behind it wait"
    assert batch_sizes(whole)[before:] == [1, 2, *[1] * 8], "what was gathered before comes first"
    assert isinstance(waiting[2], asyncio.Future)
    assert waiting[2].done()


async def test_after_a_turn_of_one_connection_a_commit_is_alone_again(tmp_path: Path) -> None:
    later: list[Callable[[], None]] = []
    whole, member_id = await start(tmp_path, later)
    for connections, are_parked in (((0, 1), [False, True]), ((0,), [True]), ((0,), [False])):
        found = [isinstance(send(whole, one, of_member(member_id), VERSION), asyncio.Future) for one in connections]
        assert found == are_parked
        later.pop()()


async def test_a_bug_in_an_append_has_a_response_for_each(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    later: list[Callable[[], None]] = []
    whole, member_id = await start(tmp_path, later)
    responses = [send(whole, connection, of_member(member_id), VERSION) for connection in range(3)]
    with mock.patch.object(Appender, "append", side_effect=ZeroDivisionError):
        later.pop()()
    assert "which is a bug" in caplog.text
    codes = [
        whole.read(await settled(one), of_member(member_id), VERSION).topics[0].partitions[0].error_code for one in responses
    ]
    assert codes == [0, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR]
