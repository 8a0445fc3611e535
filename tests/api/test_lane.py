"""Requests of members of groups take a share of each round of the loop, in the order in which they came."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from pybroker.api.lane import BURST_MAX_S, BURST_S, ROUNDS, SHARE, Lane
from pybroker.coordinator.runtime.runtime import ROUND_RESPONSES
from pybroker.network.context import ConnectionContext, Outgoing, ProtocolViolation
from pybroker.protocol.codec import encode_request
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from pybroker.protocol.messages.metadata import MetadataRequest
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from testing.scenes.api.groups import GROUP, broker, join_request
from testing.scenes.api.whole import Whole, settled
from testing.waiting import turned_until

REQUEST_S = BURST_S / 2  # what each request takes: two of them fit into a burst


class Clock:
    """A time that passes only while a request is handled."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Holder:
    """A `RequestHolder` that notes what is asked of it; `stays` is whether the bytes stay where they are."""

    def __init__(self, *, stays: bool = False) -> None:
        self.calls: list[str] = []
        self._stays = stays

    @property
    def has_next_request(self) -> bool:
        return False

    def hold_request(self, size: int) -> bool:
        self.calls.append(f"hold {size}")
        return self._stays

    def release_request(self) -> None:
        self.calls.append("release")


class Scene:
    """A lane, and a handler that takes REQUEST_S and responds with the request in upper case."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.lane = Lane(self._handle, self.clock, self.clock)
        self.handled: list[bytes] = []
        self.holder = Holder()
        self.connection = ConnectionContext(connection_id=1)
        self.connection.holder = self.holder
        self.outgoing = Outgoing([b"OUT"], 3, lambda: self.handled.append(b"sent"))

    def _handle(self, _connection: ConnectionContext, frame: memoryview) -> Any:
        assert self.lane.is_open
        request = bytes(frame)
        self.clock.now_s += REQUEST_S
        self.handled.append(request)
        if request == b"bad":
            raise ProtocolViolation("bad")
        if request == b"out":
            return self.outgoing
        if request == b"later":
            later = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(later.set_result, b"LATER")
            return later
        return request.upper()

    def send(self, request: str) -> Any:
        """Send a request whose bytes are another's afterwards, as those in the scratch buffer are."""
        assert not self.lane.is_open
        frame = bytearray(request.encode())
        response = self.lane.take(self.connection, memoryview(frame))
        if not self.holder._stays:
            frame[:] = b"x" * len(frame)
        return response


async def drained(lane: Lane) -> None:
    await turned_until(lambda: not len(lane), "an empty lane")


async def test_a_few_requests_are_handled_at_once() -> None:
    scene = Scene()
    assert [scene.send("a"), scene.send("b")] == [b"A", b"B"]
    assert scene.holder.calls == []


async def test_a_flood_takes_a_burst_of_each_round_in_its_order() -> None:
    scene = Scene()
    sent = [scene.send(one) for one in "abcdefgh"]
    assert sent[:2] == [b"A", b"B"]
    assert len(scene.lane) == 6
    counts = []
    while len(scene.lane):
        await asyncio.sleep(0)
        counts += [len(scene.handled)]
    assert counts == [4, 6, 8], "two in a round"
    assert b"".join(scene.handled) == b"abcdefgh"
    assert await asyncio.gather(*sent[2:]) == [bytes([one]) for one in b"CDEFGH"]


async def test_a_request_that_comes_while_others_wait_is_behind_them() -> None:
    scene = Scene()
    for one in "abcdef":
        scene.send(one)
    await asyncio.sleep(0)
    scene.clock.now_s += 1
    assert isinstance(scene.send("g"), asyncio.Future)
    await drained(scene.lane)
    assert b"".join(scene.handled) == b"abcdefg"


async def test_a_burst_in_each_round_needs_no_waiting() -> None:
    scene = Scene()
    for _ in range(50):
        assert [scene.send("a"), scene.send("b")] == [b"A", b"B"]
        await asyncio.sleep(0)


async def test_the_time_between_requests_of_a_round_lets_no_more_of_them_in() -> None:
    """The loop receives them in that time, or waits for a core."""
    scene = Scene()
    for one in "ab":
        scene.send(one)
        scene.clock.now_s += 10 * REQUEST_S
    assert isinstance(scene.send("c"), asyncio.Future)
    await drained(scene.lane)


async def rounds_beside(scene: Scene, others_s: float, count: int) -> list[float]:
    """Return what the lane takes of each round, in seconds, while requests wait and others take `others_s` of each."""
    taken_s = []
    for one in itertools.islice(itertools.cycle("abc"), 20 * count):
        scene.send(one)
    for _ in range(count):
        scene.clock.now_s += others_s
        before = len(scene.handled)
        await asyncio.sleep(0)
        taken_s.append((len(scene.handled) - before) * REQUEST_S)
    assert len(scene.lane)
    return taken_s


@pytest.mark.parametrize("others_s", [0.010, 0.020, 0.035])
async def test_the_lane_has_its_share_beside_work_that_makes_rounds_long(others_s: float) -> None:
    taken_s = await rounds_beside(Scene(), others_s, 80)
    later_s = taken_s[6 * ROUNDS :]
    assert sum(later_s) / (sum(later_s) + others_s * len(later_s)) >= SHARE * 0.98
    assert max(taken_s) <= BURST_MAX_S + 1.5 * REQUEST_S
    assert max(taken_s) <= others_s * SHARE / (1 - SHARE) + REQUEST_S


@pytest.mark.parametrize("others_s", [0.0, 0.002, 0.008])
async def test_beside_short_rounds_the_lane_takes_no_more_than_a_burst(others_s: float) -> None:
    assert max(await rounds_beside(Scene(), others_s, 40)) <= BURST_S + REQUEST_S / 2


async def test_a_round_of_the_lane_is_bounded_whatever_others_take() -> None:
    assert max(await rounds_beside(Scene(), 1.0, 40)) <= BURST_MAX_S + 1.5 * REQUEST_S


async def test_one_long_round_gives_no_long_burst() -> None:
    scene = Scene()
    await rounds_beside(scene, 0.001, 10)
    scene.clock.now_s += 0.04
    before = len(scene.handled)
    await asyncio.sleep(0)
    assert (len(scene.handled) - before) * REQUEST_S <= BURST_S + REQUEST_S / 2
    await drained(scene.lane)
    assert await rounds_beside(scene, 0.001, 5) == [BURST_S] * 5, "what was before an empty lane does not count"


async def test_errors_and_later_responses_reach_the_client_that_waited() -> None:
    scene = Scene()
    for one in "ab":
        scene.send(one)
    bad, later, good = scene.send("bad"), scene.send("later"), scene.send("good")
    with pytest.raises(ProtocolViolation, match="bad"):
        await bad
    assert (await later, await good) == (b"LATER", b"GOOD")
    assert not scene.lane.is_open
    scene.clock.now_s += 1
    with pytest.raises(ProtocolViolation, match="bad"):
        scene.send("bad")
    assert not scene.lane.is_open


@pytest.mark.parametrize("stays", [False, True])
async def test_the_memory_of_a_request_that_waits_is_held_until_it_is_handled(stays: bool) -> None:
    scene = Scene()
    scene.holder = scene.connection.holder = Holder(stays=stays)
    for one in "ab":
        scene.send(one)
    waiting = scene.send("some bytes")
    assert scene.holder.calls == ["hold 10"]
    assert await waiting == b"SOME BYTES"
    assert scene.holder.calls == ["hold 10", "release"]
    assert scene.connection.holder is scene.holder


async def test_a_request_of_a_client_that_is_gone_is_handled() -> None:
    """A consumer that leaves may close its connection without waiting."""
    scene = Scene()
    for one in "ab":
        scene.send(one)
    sent = [scene.send(one) for one in ("c", "later", "bad", "out")]
    scene.connection.holder = None
    for one in sent:
        one.cancel()
    await drained(scene.lane)
    await asyncio.sleep(0)
    assert scene.handled == [b"a", b"b", b"c", b"later", b"bad", b"out", b"sent"], "a response that is not sent is discarded"
    assert scene.holder.calls == ["hold 1", "hold 5", "hold 3", "hold 3"] + ["release"] * 4


MEMBERS = 40


async def test_a_group_that_joins_through_the_lane_gets_its_generation(tmp_path: Path) -> None:
    whole = await broker(tmp_path, group_initial_rebalance_delay_ms=3000)
    whole.dispatcher._lane._left_s = 0.0
    joins = [whole.send(join_request(), 3) for _ in range(MEMBERS)]
    assert len(whole.dispatcher._lane) == MEMBERS
    assert isinstance(whole.send(MetadataRequest(topics=[]), 1), bytes), "others do not wait"
    await drained(whole.dispatcher._lane)
    whole.pass_time(7_000)
    joined = [whole.read(await settled(one), join_request(), 3) for one in joins]
    assert {(one.error_code, one.generation_id) for one in joined} == {(0, 1)}
    (leader,) = [one for one in joined if one.members]
    assert len(leader.members) == MEMBERS
    requests = [sync(one.member_id, [leader, *joined] if one is leader else []) for one in joined]
    syncs = [whole.send(request, 0) for request in requests]
    synced = [whole.read(await settled(one), requests[0], 0) for one in syncs]
    assert {(one.error_code, one.assignment) for one in synced} == {(0, b"mine")}
    beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=leader.member_id)
    assert (await whole.ask(beat, 0)).error_code == ErrorCode.NONE


def sync(member_id: str, members: list[Any]) -> SyncGroupRequest:
    assignments = [SyncGroupRequestAssignment(member_id=one.member_id, assignment=b"mine") for one in members]
    return SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=member_id, assignments=assignments)


async def test_responses_to_a_generation_are_paced(tmp_path: Path) -> None:
    """Each is encoded in that round, and sent by a short turn of its own in the next."""
    whole: Whole = await broker(tmp_path, group_initial_rebalance_delay_ms=3000)
    whole.groups.runtime._call_soon = asyncio.get_running_loop().call_soon
    joins = [whole.send(join_request(), 3) for _ in range(MEMBERS)]
    await drained(whole.dispatcher._lane)
    counts = [0]
    whole.pass_time(7_000)
    while counts[-1] < MEMBERS:
        counts.append(sum(one.done() for one in joins))
        await asyncio.sleep(0)
    assert max(after - before for before, after in itertools.pairwise(counts)) <= ROUND_RESPONSES
    for one in joins:
        await settled(one)


async def test_a_request_that_waits_is_not_decoded_yet(tmp_path: Path) -> None:
    """The decoding of many requests that come at once would take as much of the round as their handling."""
    whole = await broker(tmp_path)
    whole.dispatcher._lane._left_s = 0.0
    (encoded,) = encode_request(HeartbeatRequest(group_id=GROUP), 0, correlation_id=1, client_id="test")
    assert isinstance(encoded, bytes)
    cut = memoryview(bytearray(encoded))[4:-3]
    waiting = whole.dispatcher.handle(whole.connection, cut)
    assert isinstance(waiting, asyncio.Future)
    with pytest.raises(ProtocolViolation, match="cannot be read"):
        await waiting
