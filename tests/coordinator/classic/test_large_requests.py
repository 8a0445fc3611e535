"""JoinGroup and SyncGroup with very many elements."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from pybroker.api.handlers.join_group import PROTOCOLS_MAX
from pybroker.coordinator.state.classic_group import ClassicGroup, ClassicMember, GroupState
from pybroker.coordinator.state.classic_records import group_record
from pybroker.coordinator.state.consumer_member import ClassicMetadata, ConsumerMember
from pybroker.coordinator.state.consumer_records import member_record
from pybroker.coordinator.state.records import group_tombstone, least_size, to_bytes
from pybroker.model import GroupId, MemberId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pybroker.sharing import work
from testing.scenes.api.groups import GROUP, broker, join_request
from testing.waiting import turned_until


@pytest.mark.parametrize(("count", "code"), [(PROTOCOLS_MAX, ErrorCode.MEMBER_ID_REQUIRED), (PROTOCOLS_MAX + 1, 42)])
async def test_a_member_may_name_so_many_protocols(tmp_path: Path, count: int, code: int) -> None:
    whole = await broker(tmp_path)
    protocols = [JoinGroupRequestProtocol(name=str(number), metadata=b"") for number in range(count)]
    request = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="connect", protocols=protocols)
    assert (await whole.ask(request, 4)).error_code == code


@pytest.mark.parametrize("size", [2_000_000, 1_048_588, 1_000])
async def test_what_the_log_would_refuse_is_not_made_into_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    whole = await broker(tmp_path)
    joined = await whole.ask(join_request(), 3)
    made = mock.Mock(side_effect=to_bytes)
    monkeypatch.setattr(whole.groups.runtime._appender, "_serialize", made)
    assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(size))]
    request = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=joined.member_id, assignments=assignments)
    is_small = size == 1_000
    code = ErrorCode.NONE if is_small else ErrorCode.UNKNOWN_SERVER_ERROR
    assert (await whole.ask(request, 3)).error_code == code
    assert made.call_count == is_small
    topic = whole.metrics.topic("__consumer_offsets")
    assert topic.failed_produce_requests == (not is_small)
    state = GroupState.STABLE if is_small else GroupState.PREPARING_REBALANCE
    assert [group.state for shard in whole.groups.runtime.shards for group in shard.classic_groups.values()] == [state]


def test_the_least_size_of_a_record_is_that_of_what_members_have_sent() -> None:
    group = ClassicGroup(GroupId("g"), protocol_name="p")
    one = ClassicMember(
        member_id=MemberId("m"), group_instance_id=None, client_id="c", client_host="/h", rebalance_timeout_ms=1,
        session_timeout_ms=1, protocol_type="consumer", protocols=(("p", bytes(5)), ("q", bytes(7))),
    )  # fmt: skip
    group.add(one, None)
    assert least_size(group_record(group, {MemberId("m"): bytes(11)})) == 5 + 11
    classic = ConsumerMember(member_id=MemberId("m"), classic=ClassicMetadata(1, one.protocols))
    assert least_size(member_record(GroupId("g"), classic)) == 5 + 7
    assert not least_size(member_record(GroupId("g"), ConsumerMember(member_id=MemberId("m"))))
    assert not least_size(group_tombstone(GroupId("g")))


def members(count: int) -> Iterator[ClassicMember]:
    for number in range(count):
        yield ClassicMember(
            member_id=MemberId(f"m{number}"), group_instance_id=None, client_id="c", client_host="/h", rebalance_timeout_ms=1,
            session_timeout_ms=1, protocol_type="consumer", protocols=(("p", b"what it reads"),),
        )  # fmt: skip


async def test_many_members_get_their_generation_and_their_assignments_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await broker(tmp_path)
    leader = (await whole.ask(join_request(), 3)).member_id
    whole.call_soon = asyncio.get_running_loop().call_soon
    monkeypatch.setattr(work, "SLICE_S", 0.0)
    joins = [whole.send(join_request(), 3) for _ in range(19)]
    again = join_request(leader)
    joins.append(whole.send(again, 3))
    await turned_until(joins[-1].done, "the response to the leader, which is the first")
    assert not all(one.done() for one in joins), "others are served between two responses"
    joined = [whole.read(await one, again, 3) for one in joins]
    assert {(one.error_code, one.generation_id, one.leader) for one in joined} == {(0, 2, leader)}
    assert [len(one.members) for one in joined] == [0] * 19 + [20]
    assert {one.member_id for one in joined} == {one.member_id for one in joined[-1].members}

    ids = [one.member_id for one in joined]
    assignments = [SyncGroupRequestAssignment(member_id=one, assignment=one.encode()) for one in ids]
    requests = [SyncGroupRequest(group_id=GROUP, generation_id=2, member_id=one) for one in ids]
    requests[-1].assignments = assignments
    syncs = [whole.send(one, 3) for one in requests]
    await turned_until(syncs[-1].done, "the response to the leader")
    assert not all(one.done() for one in syncs), "others are served between two responses"
    assert [whole.read(await one, requests[0], 3).assignment for one in syncs] == [one.encode() for one in ids]


def test_a_group_keeps_no_names_of_protocols_that_no_member_has() -> None:
    group = ClassicGroup(GroupId("g"))
    one = ClassicMember(
        member_id=MemberId("m"), group_instance_id=None, client_id="c", client_host="/h", rebalance_timeout_ms=1,
        session_timeout_ms=1, protocol_type="consumer", protocols=(("a", b""), ("b", b"")),
    )  # fmt: skip
    group.add(one, None)
    group.update(one, protocols=(("b", b""), ("c", b"")), rebalance_timeout_ms=1, session_timeout_ms=1, respond=None)
    assert group.protocol_counts == {"b": 1, "c": 1}
    group.remove(MemberId("m"))
    assert not list(group.protocol_counts)
