"""Sessions in etcd: when they end for their owner and for others, whatever becomes of renewals. The member of etcd is a simulated
one, and so is the time.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.clock import ManualClock
from pybroker.metadata.store.base import (
    Change,
    OutcomeUnknownError,
    Session,
    SessionEndedError,
    StoreError,
    UnreachableError,
)
from pybroker.metadata.store.etcd.store import HASTE_S, EtcdStore
from testing.simulation.etcd import FAULTS, SimulatedEtcd, SimulatedGateway
from testing.simulation.loop import SimulatedLoop

TTL_S = 9


class Scene:
    """Two stores on one etcd: that of the session's owner, and another one, which sees the owner's keys."""

    def __init__(self) -> None:
        self.etcd = SimulatedEtcd()
        self.gateway: SimulatedGateway = self.etcd.gateway()
        self.owner = EtcdStore(self.gateway, "test", "broker-1")
        self.other = EtcdStore(self.etcd.gateway(), "test", "broker-2")
        self.gone_at_s: list[float] = []

    def _see(self, changes: Sequence[Change]) -> None:
        if any(change.value is None for change in changes):
            self.gone_at_s.append(now_s())

    async def begin(self) -> Session:
        self.other.watch("", self._see)
        await self.other.commit()
        session = await self.owner.open_session(ttl_ms=TTL_S * 1000, renew_ms=2_000)
        await self.owner.commit(puts={"owner": b""}, session=session)
        return session

    async def end(self) -> None:
        await self.owner.close()
        await self.other.close()


def simulated(scenario: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        scene = Scene()
        await scenario(scene)
        await scene.end()

    loop = SimulatedLoop(ManualClock())
    try:
        loop.run(run())
    finally:
        loop.end()


def now_s() -> float:
    return asyncio.get_running_loop().time()


def test_a_session_that_renews_itself_does_not_end() -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.begin()
        for _ in range(100):
            await asyncio.sleep(1)
            assert not session.ended.is_set()
            assert session.valid_until_s > now_s() + TTL_S - 2.1
        assert not scene.gone_at_s

    simulated(scenario)


def test_a_session_that_cannot_be_renewed_ends_for_its_owner_first() -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.begin()
        await asyncio.sleep(21)
        scene.gateway.is_cut = True
        valid_until_s = session.valid_until_s
        await session.ended.wait()
        assert now_s() == pytest.approx(valid_until_s, abs=0.01)
        assert session.valid_until_s < now_s()
        await asyncio.sleep(1)
        assert scene.gone_at_s == [pytest.approx(valid_until_s, abs=0.01)]

    simulated(scenario)


def test_a_session_whose_owner_is_gone_ends_after_its_time() -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.begin()
        await scene.owner.close()
        assert session.ended.is_set()
        closed_s = now_s()
        await asyncio.sleep(TTL_S + 1)
        assert scene.gone_at_s == [pytest.approx(closed_s + TTL_S, abs=0.1)]

    simulated(scenario)


def test_the_time_of_a_session_counts_from_when_its_renewal_was_sent() -> None:
    async def scenario(scene: Scene) -> None:
        scene.etcd.delay_s = 0.9  # to etcd, and the same back
        began_s = now_s()
        session = await scene.owner.open_session(ttl_ms=TTL_S * 1000, renew_ms=2_000)
        assert now_s() == pytest.approx(began_s + 1.8, abs=0.01)
        assert session.valid_until_s == pytest.approx(began_s + TTL_S, abs=0.01)
        await asyncio.sleep(2.1 + 1.8)
        assert session.valid_until_s == pytest.approx(began_s + 1.8 + 2 + TTL_S, abs=0.01)

    simulated(scenario)


def test_renewals_that_are_lost_or_late_are_sent_again() -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.begin()
        for fault in (*FAULTS, "silent"):
            if fault == "silent":
                scene.etcd.delay_s = 2.5  # longer than a renewal waits for a response
                await asyncio.sleep(3)
                scene.etcd.delay_s = 0
            else:
                scene.etcd.plan(*[fault] * 5)
            await asyncio.sleep(6)
            assert session.valid_until_s > now_s() + TTL_S - 2.2, fault
        assert not session.ended.is_set()

    simulated(scenario)


def test_a_session_that_etcd_does_not_know_any_more_has_ended_at_the_next_renewal() -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.begin()
        scene.etcd.end_leases()
        ended_s = now_s()
        await session.ended.wait()
        assert now_s() == pytest.approx(ended_s + 2, abs=0.1)
        assert len(scene.gone_at_s) == 1
        again = await scene.owner.open_session(ttl_ms=TTL_S * 1000, renew_ms=2_000)
        await scene.owner.commit(puts={"owner": b""}, session=again)
        with pytest.raises(SessionEndedError):
            await scene.owner.commit(puts={"owner": b""}, session=session)

    simulated(scenario)


def test_a_commit_for_a_session_that_etcd_does_not_know_any_more_shows_that_it_has_ended() -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.begin()
        scene.etcd.end_leases()
        with pytest.raises(SessionEndedError):
            await scene.owner.commit(puts={"owner": b""}, deletes=["other"], session=session)
        assert session.ended.is_set()
        assert (await scene.owner.list()).entries == ()
        assert isinstance(await scene.owner.commit(puts={"another": b""}), int)

    simulated(scenario)


@pytest.mark.parametrize("faults", [["response lost"], ["lost"], ["not sent", "response lost"]])
def test_a_session_is_closed_although_responses_are_lost(faults: list[str]) -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.begin()
        seen: list[Change] = []
        scene.owner.watch("", seen.extend)
        scene.etcd.plan(*faults)
        await session.close()
        assert [(change.key, change.value) for change in seen] == [("owner", None)]
        assert session.ended.is_set()

    simulated(scenario)


def test_closing_a_session_without_etcd_takes_no_longer_than_its_time() -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.begin()
        valid_until_s = session.valid_until_s
        scene.gateway.is_cut = True
        closing = asyncio.ensure_future(session.close())
        await asyncio.sleep(0.01)
        assert session.ended.is_set()
        await closing
        assert now_s() == pytest.approx(valid_until_s, abs=0.2)

    simulated(scenario)


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_process_that_stops_without_etcd_waits_for_its_patience_in_haste(
    is_silent: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.begin()
        scene.gateway.is_cut, scene.etcd.delay_s = not is_silent, 60.0 if is_silent else 0.0
        changing = asyncio.ensure_future(scene.owner.commit(puts={"k": b""}))
        await asyncio.sleep(0.01)
        began_s = now_s()
        scene.owner.hasten()
        await session.close()
        await asyncio.wait([changing])
        await scene.owner.close()
        assert now_s() == pytest.approx(began_s + 2 * HASTE_S, abs=0.2)  # of the commit, and then of the session
        assert isinstance(changing.exception(), OutcomeUnknownError if is_silent else UnreachableError)
        (line,) = caplog.messages
        assert line.startswith("This broker could not end its session with the metadata store: ")
        assert "s at most" in line

    caplog.set_level("INFO")
    simulated(scenario)


def test_a_session_that_could_not_be_renewed_has_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.begin()
        scene.gateway.is_cut = True
        await session.ended.wait()
        assert session.reason == "it could not be renewed in time, because the gateway is cut off"
        scene.gateway.is_cut = False

    simulated(scenario)
    (line,) = [one for one in caplog.messages if "session" in one]
    assert re.search(r"could not renew .*, and tries again until the session ends in \d\.\d s: the gateway is cut off", line)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 1 << 32))
def test_others_never_see_the_end_of_a_session_while_it_is_valid_for_its_owner(seed: int) -> None:
    async def scenario(scene: Scene) -> None:
        draw, sessions, seen = random.Random(seed), list[Session](), [b"0"]

        def check(changes: Sequence[Change]) -> None:
            for change in changes:
                if change.value is None:
                    assert now_s() >= sessions[int(seen[-1])].valid_until_s
                else:
                    seen.append(change.value)

        async def disturb() -> None:
            while True:
                scene.etcd.plan(*draw.choices(["ok", *FAULTS], [3] + [1] * len(FAULTS), k=draw.randrange(60)))
                scene.etcd.delay_s = draw.choice([0, 0, 0.3, 1.5])
                scene.gateway.is_cut = draw.random() < 0.2
                await asyncio.sleep(draw.uniform(0, 12))
                draw.choice([scene.etcd.break_watches, scene.etcd.carry_out_late])()

        await scene.other.commit()
        scene.other.watch("owner", check)
        disturbance = asyncio.create_task(disturb())
        while now_s() < 300:
            try:
                sessions.append(await scene.owner.open_session(ttl_ms=TTL_S * 1000, renew_ms=2_000))
                await scene.owner.commit(puts={"owner": b"%d" % (len(sessions) - 1)}, session=sessions[-1])
                await asyncio.wait_for(sessions[-1].ended.wait(), 60)
            except (TimeoutError, StoreError):
                await asyncio.sleep(1)
        disturbance.cancel()

    simulated(scenario)
