"""The store in etcd beside etcd3gw, OpenStack's client of the same gateway: each reads what the other has written."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from etcd3gw.client import Etcd3Client

from pybroker.metadata.store import open_store
from pybroker.metadata.store.base import ABSENT, Change
from pybroker.metadata.store.etcd.address import parse
from pybroker.metadata.store.renewal import RenewedSession
from testing.process import etcd_peer
from testing.waiting import LONG_WAIT_S

ENTRIES = "oracle/entries/"
VALUES = {"empty": b"", "text": b"a value", "bytes": bytes(range(256)), "a/folder/ключ": b"\0"}


def client_of(url: str) -> Etcd3Client:
    (address,) = parse(url).endpoints
    return Etcd3Client(host=address.host, port=address.port, api_path="/v3/")


def read(client: Etcd3Client) -> dict[str, tuple[bytes, int]]:
    """Return the store's entries and their revisions as the other client reads them."""
    return {
        item["key"].decode().removeprefix(ENTRIES): (value, int(item["mod_revision"]))
        for value, item in client.get_prefix(ENTRIES)
    }


def leases(client: Etcd3Client) -> list[str]:
    return [one["ID"] for one in client.post(client.get_url("/lease/leases"), json={}).get("leases", ())]


def test_both_clients_read_the_same_entries_and_follow_each_others_changes() -> None:
    async def run(url: str) -> None:
        client, store = client_of(url), open_store(f"etcd:{url}/oracle", owner="broker-1")
        seen: asyncio.Queue[Change] = asyncio.Queue()

        def note(changes: Sequence[Change]) -> None:
            for change in changes:
                seen.put_nowait(change)

        revision = await store.commit(puts=VALUES, compare=dict.fromkeys(VALUES, ABSENT))
        assert read(client) == {key: (value, revision) for key, value in VALUES.items()}
        store.watch("", note)
        await store.commit(deletes=("text",))
        assert await asyncio.wait_for(seen.get(), LONG_WAIT_S) == Change("text", None, int(client.status()["header"]["revision"]))
        assert set(read(client)) == VALUES.keys() - {"text"}
        client.put(f"{ENTRIES}text", "by another")
        change = await asyncio.wait_for(seen.get(), LONG_WAIT_S)
        assert (change.key, change.value) == ("text", b"by another")
        assert change.revision == read(client)["text"][1]
        listing = await store.list()
        assert {one.key: (one.value, one.revision) for one in listing.entries} == read(client)
        await store.close()

    with etcd_peer.running() as etcd:
        asyncio.run(run(etcd.urls))


def test_a_session_is_a_lease_whose_keys_the_other_client_sees_and_whose_end_it_sees() -> None:
    async def run(url: str) -> None:
        client, store = client_of(url), open_store(f"etcd:{url}/oracle", owner="broker-1")
        session = await store.open_session(ttl_ms=60_000, renew_ms=20_000)
        assert isinstance(session, RenewedSession)
        await store.commit(puts={"mine": b"here"}, session=session)
        ((_, item),) = client.get(f"{ENTRIES}mine", metadata=True)
        assert item["lease"] == session.lease_id
        assert session.lease_id in leases(client)
        await session.close()
        assert client.get(f"{ENTRIES}mine") == []
        assert session.lease_id not in leases(client)
        await store.close()

    with etcd_peer.running() as etcd:
        asyncio.run(run(etcd.urls))
