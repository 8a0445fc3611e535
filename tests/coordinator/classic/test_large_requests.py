"""JoinGroup and SyncGroup with very many elements."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pybroker import slicing
from pybroker.api.handlers.join_group import PROTOCOLS_MAX
from pybroker.coordinator.classic import sync
from pybroker.coordinator.classic.group import ClassicGroup, ClassicMember
from pybroker.model import GroupId, MemberId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from testing.scenes.api.groups import GROUP, broker, join_request


@pytest.mark.parametrize(("count", "code"), [(PROTOCOLS_MAX, ErrorCode.MEMBER_ID_REQUIRED), (PROTOCOLS_MAX + 1, 42)])
async def test_a_member_may_name_so_many_protocols(tmp_path: Path, count: int, code: int) -> None:
    whole = await broker(tmp_path)
    protocols = [JoinGroupRequestProtocol(name=str(number), metadata=b"") for number in range(count)]
    request = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="connect", protocols=protocols)
    assert (await whole.ask(request, 4)).error_code == code


async def test_many_assignments_are_looked_at_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await broker(tmp_path)
    joined = await whole.ask(join_request(), 3)
    member_id = joined.member_id
    whole.call_soon = asyncio.get_running_loop().call_soon
    monkeypatch.setattr(slicing, "SLICE_S", 0.0)
    monkeypatch.setattr(sync, "STEP_ASSIGNMENTS", 10)
    ids = [*(f"m{number}" for number in range(100)), member_id, "other"]
    assignments = [SyncGroupRequestAssignment(member_id=one, assignment=one.encode()) for one in ids]
    request = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=member_id, assignments=assignments)
    sent = whole.send(request, 3)
    turns = 0
    while not sent.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 10
    assert whole.read(await sent, request, 3).assignment == member_id.encode()


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
