"""The store in etcd when requests are lost, watches break and history is compacted; the member of etcd is a simulated one."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.clock import ManualClock
from pybroker.metadata.store import open_store
from pybroker.metadata.store.base import ABSENT, Change, Conflict, OutcomeUnknownError, StoreError, UnreachableError
from pybroker.metadata.store.etcd import following
from pybroker.metadata.store.etcd import store as etcd_store
from pybroker.metadata.store.etcd.address import Endpoint, EtcdAddress, parse
from pybroker.metadata.store.etcd.gateway import Gateway
from pybroker.metadata.store.etcd.store import EtcdStore
from testing.simulation.etcd import FAULTS, SimulatedEtcd
from testing.simulation.loop import SimulatedLoop
from testing.waiting import turned_until

PATIENCE_S = 0.05


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_store, "PAUSE_S", 0)
    monkeypatch.setattr(following, "PAUSE_S", 0)


def opened(etcd: SimulatedEtcd, owner: str = "broker-1") -> EtcdStore:
    return EtcdStore(etcd.gateway(), "test", owner, patience_s=PATIENCE_S)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_commit_happens_once_whatever_becomes_of_a_request(fault: str) -> None:
    etcd = SimulatedEtcd()
    store, seen = opened(etcd), list[Sequence[Change]]()
    store.watch("", seen.append)
    assert isinstance(await store.commit(puts={"k": b"1"}, compare={"k": ABSENT}), int)
    etcd.plan(fault)
    revision = await store.commit(puts={"k": b"2"}, compare={"k": seen[-1][0].revision})
    etcd.carry_out_late()
    assert isinstance(revision, int)
    assert [(change.key, change.value) for changes in seen for change in changes] == [("k", b"1"), ("k", b"2")]
    etcd.plan("response lost")
    assert await store.commit(puts={"k": b"3"}, compare={"k": ABSENT}) == Conflict("k", ABSENT, revision)
    assert len(seen) == 2
    await store.close()


async def test_a_commit_that_was_given_up_does_not_happen_after_a_later_one() -> None:
    etcd = SimulatedEtcd()
    store = opened(etcd)
    await store.commit(puts={"k": b"1"})
    etcd.plan("late", *["lost"] * 100_000)
    with pytest.raises(OutcomeUnknownError):
        await store.commit(puts={"k": b"given up"})
    etcd.plan_nothing()
    revision = await store.commit(puts={"k": b"2"})
    etcd.carry_out_late()
    assert isinstance(revision, int)
    assert (entry := await store.get("k")) is not None
    assert (entry.value, entry.revision) == (b"2", revision)
    await store.close()


async def test_a_commit_whose_outcome_was_unknown_is_seen_when_it_has_happened() -> None:
    etcd = SimulatedEtcd()
    store, seen = opened(etcd), list[Change]()
    store.watch("", seen.extend)
    await store.commit(puts={"k": b"1"})
    etcd.plan("response lost", *["lost"] * 100_000)
    with pytest.raises(
        OutcomeUnknownError, match=r"sent no response \(planned\), .* finds that out by the mark .* To do: look whether"
    ):
        await store.commit(puts={"k": b"2"})
    etcd.plan_nothing()
    await store.commit(puts={"other": b""})
    assert [(change.key, change.value) for change in seen] == [("k", b"1"), ("k", b"2"), ("other", b"")]
    await store.close()


async def test_a_store_that_cannot_be_reached_is_an_error_and_nothing_has_changed() -> None:
    etcd = SimulatedEtcd()
    store = opened(etcd)
    await store.commit(puts={"k": b"1"})
    etcd.plan(*["not sent"] * 100_000)
    with pytest.raises(StoreError) as raised:
        await store.commit(puts={"k": b"2"})
    assert not isinstance(raised.value, OutcomeUnknownError)
    etcd.plan_nothing()
    assert (entry := await store.get("k")) is not None
    assert entry.value == b"1"
    await store.close()


async def test_a_second_process_of_an_owner_takes_over_and_the_first_changes_nothing_any_more() -> None:
    etcd = SimulatedEtcd()
    taken_over = asyncio.Event()
    first = EtcdStore(etcd.gateway(), "test", "broker-1", on_taken_over=taken_over.set)
    second = EtcdStore(etcd.gateway(), "test", "broker-1", on_taken_over=pytest.fail)
    await first.commit(puts={"k": b"1"})
    assert not taken_over.is_set()
    await second.commit(puts={"k": b"2"})
    await turned_until(taken_over.is_set, "the first has seen it")
    with pytest.raises(StoreError, match="another process is broker-1 by now, and changes the metadata"):
        await first.commit(puts={"k": b"3"})
    assert (entry := await second.get("k")) is not None
    assert entry.value == b"2"
    await first.close()
    await second.close()


@pytest.mark.parametrize("is_compacted", [False, True])
async def test_a_watch_that_breaks_misses_nothing_and_repeats_nothing(*, is_compacted: bool) -> None:
    etcd = SimulatedEtcd()
    gateway = etcd.gateway()
    mine, others = EtcdStore(gateway, "test", "broker-1", patience_s=PATIENCE_S), opened(etcd, "broker-2")
    seen: list[Change] = []
    mine.watch("", seen.extend)
    await mine.commit(puts={"gone": b"", "changed": b"1", "kept": b""})
    seen.clear()
    gateway.hold_watches()
    etcd.break_watches()
    revisions = [
        await others.commit(puts={"changed": b"2"}),
        await others.commit(deletes=["gone"]),
        await others.commit(puts={"changed": b"3", "new": b""}),
    ]
    if is_compacted:
        etcd.compact()
    gateway.release_watches()
    await mine.commit(puts={"last": b""})
    if is_compacted:
        assert [(change.key, change.value) for change in seen] == [("changed", b"3"), ("gone", None), ("last", b""), ("new", b"")]
        assert [change.revision for change in seen if change.key in {"changed", "new"}] == [revisions[2]] * 2
    else:
        expected = [("changed", b"2"), ("gone", None), ("changed", b"3"), ("new", b""), ("last", b"")]
        assert [(change.key, change.value) for change in seen] == expected
        assert [change.revision for change in seen[:4]] == [revisions[0], revisions[1], revisions[2], revisions[2]]
    await mine.close()
    await others.close()


async def test_a_time_without_a_majority_is_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, following.__name__)
    etcd = SimulatedEtcd()
    store = opened(etcd)
    await store.commit(puts={"k": b""})
    etcd.plan(*["lost"] * 5)

    def is_over() -> bool:
        etcd.break_watches()  # a member without a majority takes a watch, and breaks it
        return not etcd.has_plan

    await turned_until(is_over, "the member carries out requests again")
    await turned_until(lambda: len(caplog.messages) == 2, "the watch continues")
    await store.commit(puts={"k": b"2"})
    assert [text.split(" in etcd ")[1].split()[0].rstrip(",:") for text in caplog.messages] == ["broke", "continues"]
    await store.close()


async def test_a_store_that_cannot_be_reached_names_each_member_with_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [each.getsockname()[1] for each in (one, other)]
    gateway = Gateway(parse(",".join(f"http://127.0.0.1:{port}" for port in ports)).endpoints)
    store = EtcdStore(gateway, "n", "broker-1", patience_s=0)
    with pytest.raises(UnreachableError) as raised:
        await store.get("k")
    reasons = "; ".join(f"http://127.0.0.1:{port}: Connection refused" for port in ports)
    assert str(raised.value) == f"no member of etcd can be reached ({reasons})"
    await store.close()


async def test_a_store_without_a_majority_names_the_members_that_can_be_reached() -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(1):
            body = b'{"error":"etcdserver: no leader","code":14}'
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port_of_gone = gone.getsockname()[1]
    gateway = Gateway(parse(f"http://127.0.0.1:{port},http://127.0.0.1:{port_of_gone}").endpoints)
    store = EtcdStore(gateway, "n", "broker-1", patience_s=0)
    with pytest.raises(UnreachableError) as raised:
        await store.get("k")
    assert str(raised.value) == (
        "etcd could not carry out a request, perhaps because a majority of its members is missing: etcdserver: no leader "
        f"(http://127.0.0.1:{port} can be reached; http://127.0.0.1:{port_of_gone}: Connection refused)"
    )
    await store.close()
    server.close()


async def test_a_watch_that_etcd_refuses_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    etcd = SimulatedEtcd()
    store = opened(etcd)
    etcd.watches_are_refused_with = "etcdserver: permission denied"
    writing = asyncio.ensure_future(store.commit(puts={"k": b""}))
    await turned_until(lambda: caplog.messages, "the watch is refused")
    assert "broke: etcd refuses a request: etcdserver: permission denied" in caplog.messages[0]
    etcd.watches_are_refused_with = ""
    assert isinstance(await writing, int)
    assert len(caplog.messages) == 1
    await store.close()


def test_changes_behind_a_listing_are_seen_after_it() -> None:
    async def run() -> None:
        etcd = SimulatedEtcd()
        mine, others = opened(etcd), opened(etcd, "broker-2")
        seen: list[int] = []
        mine.watch("", lambda changes: seen.append(changes[0].revision))
        await mine.commit(puts={"k": b""})
        await others.commit()

        async def list_and_look() -> int:
            revision = (await mine.list()).revision
            assert max(seen) <= revision
            return revision

        etcd.delay_s = 1.0  # to etcd, and the same back
        listing = asyncio.create_task(list_and_look())
        await asyncio.sleep(0.5)
        revision = await others.commit(puts={"k": b"new"})  # is carried out while the response of the listing is on its way
        assert isinstance(revision, int)
        assert await listing < revision == seen[-1]
        await mine.close()
        await others.close()

    loop = SimulatedLoop(ManualClock())
    loop.run(run())
    loop.end()


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 1 << 32))
def test_three_stores_agree_about_every_key_after_any_losses(seed: int) -> None:
    async def run() -> None:
        draw, etcd = random.Random(seed), SimulatedEtcd()
        stores = [opened(etcd, f"broker-{n}") for n in range(3)]
        images: list[dict[str, tuple[bytes, int]]] = [{} for _ in stores]

        def follow(image: dict[str, tuple[bytes, int]], changes: Sequence[Change]) -> None:
            for key, value, revision in changes:
                if value is None:
                    image.pop(key, None)
                else:
                    assert image.get(key, (b"", 0))[1] < revision, "a change came twice, or in the wrong order"
                    image[key] = value, revision

        async def count_up(number: int) -> tuple[int, int]:
            """Count up by compare-and-swap; return how often that has happened, and how often it may have."""
            store, image = stores[number], images[number]
            certain = possible = 0
            for _ in range(8):
                value, revision = image.get("count", (b"0", ABSENT))
                puts = {"count": b"%d" % (int(value) + 1), f"own/{draw.randrange(3)}": b"%d" % number}
                deletes = {f"own/{draw.randrange(3)}"} - puts.keys()
                try:
                    outcome = await store.commit(puts=puts, deletes=deletes, compare={"count": revision})
                except OutcomeUnknownError:
                    possible += 1
                except StoreError:  # no request was sent
                    continue
                else:
                    certain += not isinstance(outcome, Conflict)
            return certain, possible

        async def disturb() -> None:
            while True:
                etcd.plan(*draw.choices(["ok", *FAULTS], [4] + [1] * len(FAULTS), k=4))
                for _ in range(draw.randrange(20)):
                    await asyncio.sleep(0)
                draw.choice([etcd.break_watches, etcd.compact, etcd.carry_out_late, etcd.carry_out_late])()

        for store, image in zip(stores, images, strict=True):
            store.watch("", lambda changes, image=image: follow(image, changes))  # type: ignore[misc]
            await store.commit()
        disturbance = asyncio.create_task(disturb())
        counted = await asyncio.gather(*map(count_up, range(3)))
        disturbance.cancel()
        etcd.plan_nothing()
        for store in stores:
            await store.commit()
        etcd.carry_out_late()
        for store, image in zip(stores, images, strict=True):
            await store.commit()
            entries = (await store.list()).entries
            assert image == {entry.key: (entry.value, entry.revision) for entry in entries}
        certain, possible = (sum(one[n] for one in counted) for n in range(2))
        assert certain <= int(images[0].get("count", (b"0", 0))[0]) <= certain + possible
        for store in stores:
            await store.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("urls", "address"),
    [
        ("http://a", EtcdAddress((Endpoint("a", 2379, is_secure=False),), "pybroker")),
        (
            "http://a:1,https://[::1]:2/x/y",
            EtcdAddress((Endpoint("a", 1, is_secure=False), Endpoint("::1", 2, is_secure=True)), "x/y"),
        ),
    ],
)
def test_an_address_names_members_and_a_namespace(urls: str, address: EtcdAddress) -> None:
    assert parse(urls) == address


@pytest.mark.parametrize(
    "urls", ["", "localhost:2379", "http://", "ftp://a", "http://a:x", "http://u:p@a", "http://a/x,http://b/y"]
)
def test_a_wrong_address_is_refused_by_name(urls: str) -> None:
    with pytest.raises(StoreError, match=r"metadata\.store"):
        open_store(f"etcd:{urls}")
