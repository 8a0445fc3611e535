"""A metadata store in a real etcd, whose members are killed, paused and started again in the middle."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pybroker.metadata.store import open_store
from pybroker.metadata.store.base import ABSENT, Change, Conflict, OutcomeUnknownError, SessionEndedError, StoreError
from pybroker.metadata.store.etcd import messages
from pybroker.metadata.store.etcd.address import parse
from pybroker.metadata.store.etcd.gateway import Gateway
from pybroker.metadata.store.renewal import RenewedSession
from testing.process import etcd_peer
from testing.process.broker import BrokerProcess
from testing.scenes.store_contract import SCENARIOS

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.metadata.store.base import Store
    from testing.process.etcd_peer import EtcdPeer

TIMEOUT_S = 60


@pytest.fixture
def etcd() -> Iterator[EtcdPeer]:
    with etcd_peer.running() as peer:
        yield peer


@pytest.fixture
def three_members() -> Iterator[EtcdPeer]:
    with etcd_peer.running(3) as peer:
        yield peer


async def count_up(store: Store, times: int) -> tuple[int, int]:
    """Count a key up by compare-and-swap; return how often that has happened, and how often it may have."""
    certain = possible = 0
    while certain < times:
        entry = await store.get("count")
        value, revision = (0, ABSENT) if entry is None else (int(entry.value), entry.revision)
        try:
            outcome = await store.commit(puts={"count": b"%d" % (value + 1)}, compare={"count": revision})
        except OutcomeUnknownError:
            possible += 1
        else:
            certain += not isinstance(outcome, Conflict)
    return certain, possible


async def disturbed(etcd: EtcdPeer, times: int) -> None:
    """Kill and pause the members in turn while two stores count up, and check that both saw each number once."""
    seen: list[list[int]] = [[], []]

    def note(numbers: list[int], changes: Sequence[Change]) -> None:
        numbers += [int(change.value or b"") for change in changes if change.key == "count"]

    stores = [open_store(f"etcd:{etcd.urls}", owner=f"broker-{number}") for number in range(2)]
    for store, numbers in zip(stores, seen, strict=True):
        store.watch("", lambda changes, numbers=numbers: note(numbers, changes))  # type: ignore[misc]
        await store.commit()
    counting = [asyncio.create_task(count_up(store, times)) for store in stores]
    for member in etcd.members:
        await asyncio.sleep(0.3)  # the stores count meanwhile
        member.kill()
        await asyncio.sleep(0.3)
        etcd.start(member)
        await asyncio.to_thread(etcd.become_ready)
        member.signal(signal.SIGSTOP)
        await asyncio.sleep(0.3)
        member.signal(signal.SIGCONT)
    counted = await asyncio.gather(*counting)
    for store in stores:
        await store.commit()
    entry = await stores[0].get("count")
    assert entry is not None
    certain, possible = (sum(one[n] for one in counted) for n in range(2))
    assert certain <= int(entry.value) <= certain + possible
    assert seen == [list(range(1, int(entry.value) + 1))] * 2
    for store in stores:
        await store.close()


def test_each_change_happens_once_and_is_seen_once_while_the_only_member_comes_and_goes(etcd: EtcdPeer) -> None:
    asyncio.run(disturbed(etcd, 300))


def test_each_change_happens_once_and_is_seen_once_while_three_members_come_and_go(three_members: EtcdPeer) -> None:
    asyncio.run(disturbed(three_members, 300))


async def disturb(etcd: EtcdPeer) -> None:
    """Kill the only member and start it again, and pause it, again and again."""
    (member,) = etcd.members
    while True:
        await asyncio.sleep(random.uniform(0, 0.3))
        member.kill()
        await asyncio.sleep(random.uniform(0, 0.3))
        etcd.start()
        await asyncio.to_thread(etcd.become_ready)
        await asyncio.sleep(random.uniform(0, 0.3))
        member.signal(signal.SIGSTOP)
        await asyncio.sleep(random.uniform(0, 0.3))
        member.signal(signal.SIGCONT)


def test_a_store_keeps_the_promises_of_the_contract_while_etcd_comes_and_goes(etcd: EtcdPeer) -> None:
    async def run() -> None:
        disturbing = asyncio.create_task(disturb(etcd))
        for scenario in SCENARIOS:
            store = open_store(f"etcd:{etcd.urls}/{scenario.__name__}", owner="broker-1")
            await asyncio.wait_for(scenario(store), TIMEOUT_S)
            await store.close()
        disturbing.cancel()

    asyncio.run(run())


def test_a_session_survives_a_restart_of_etcd_and_ends_for_its_owner_first_when_etcd_is_silent(etcd: EtcdPeer) -> None:
    async def run() -> None:
        owner, other = (open_store(f"etcd:{etcd.urls}", owner=f"broker-{number}") for number in range(2))
        gone, member = asyncio.Event(), etcd.members[0]
        other.watch("mine", lambda changes: gone.set() if changes[0].value is None else None)
        await other.commit()
        session = await owner.open_session(ttl_ms=3_000, renew_ms=500)
        await owner.commit(puts={"mine": b""}, session=session)
        member.kill()
        await asyncio.sleep(0.5)
        etcd.start()
        await asyncio.sleep(4)
        assert not session.ended.is_set()
        assert await other.get("mine") is not None
        member.signal(signal.SIGSTOP)
        await asyncio.wait_for(session.ended.wait(), 4)
        assert not gone.is_set()
        member.signal(signal.SIGCONT)
        await asyncio.wait_for(gone.wait(), TIMEOUT_S)
        with pytest.raises(SessionEndedError):
            await owner.commit(puts={"mine": b""}, session=session)
        again = await owner.open_session(ttl_ms=60_000, renew_ms=500)
        await owner.commit(puts={"mine": b""}, session=again)
        gone.clear()
        await again.close()
        await other.commit()
        assert gone.is_set()
        await owner.close()
        await other.close()

    asyncio.run(run())


def test_etcd_refuses_a_commit_for_a_lease_that_has_ended(etcd: EtcdPeer) -> None:
    async def run() -> None:
        store = open_store(f"etcd:{etcd.urls}", owner="broker-1")
        session = await store.open_session(ttl_ms=60_000, renew_ms=20_000)
        assert isinstance(session, RenewedSession)
        gateway = Gateway(parse(etcd.urls).endpoints)
        await gateway.call(messages.LEASE_END, messages.lease(session.lease_id))
        gateway.close()
        with pytest.raises(SessionEndedError, match="lease not found"):
            await store.commit(puts={"mine": b""}, session=session)
        assert session.ended.is_set()
        assert (await store.list()).entries == ()
        assert isinstance(await store.commit(puts={"another": b""}), int)
        await store.close()

    asyncio.run(run())


def test_a_change_that_etcd_would_refuse_for_its_size_is_refused_before(etcd: EtcdPeer) -> None:
    async def run() -> None:
        store = open_store(f"etcd:{etcd.urls}", owner="broker-1")
        limits = store.limits
        keys = [f"key-{number}" for number in range(limits.operations_max)]
        assert isinstance(await store.commit(puts=dict.fromkeys(keys, b""), compare=dict.fromkeys(keys, ABSENT)), int)
        assert isinstance(await store.commit(puts={"large": bytes(limits.bytes_max - 5)}), int)
        for puts in (dict.fromkeys([*keys, "more"], b""), {"large": bytes(limits.bytes_max)}):
            with pytest.raises(StoreError, match="at most"):
                await store.commit(puts=puts)
        await store.close()

    asyncio.run(run())


def test_a_broker_keeps_its_topics_in_etcd(etcd: EtcdPeer, tmp_path: Path) -> None:
    names = {f"topic-{number}" for number in range(300)}
    broker = BrokerProcess(tmp_path, {"metadata.store": f"etcd:{etcd.urls}/one"})
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in sorted(names)]).values():
            future.result(TIMEOUT_S)
        broker.kill()
        etcd.members[0].kill()
        etcd.start()
        broker.start()
        assert names <= admin.list_topics(timeout=TIMEOUT_S).topics.keys()
        for future in admin.delete_topics(sorted(names)).values():
            future.result(TIMEOUT_S)
        assert not names & admin.list_topics(timeout=TIMEOUT_S).topics.keys()
        assert not any((broker.data_dir / f"{name}-0").exists() for name in names)
    finally:
        broker.stop()
    assert not (broker.data_dir / "metadata.sqlite").exists()
    elsewhere = BrokerProcess(tmp_path, {"metadata.store": f"etcd:{etcd.urls}/another"})
    with pytest.raises(RuntimeError, match="another is new, but"):
        elsewhere.start()
