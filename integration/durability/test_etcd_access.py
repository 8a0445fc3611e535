"""A metadata store in a real etcd that demands a user and a password, or certificates."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.metadata.store import open_store
from pybroker.metadata.store.base import Change, StoreError
from pybroker.metadata.store.etcd import messages
from pybroker.metadata.store.etcd.address import parse
from pybroker.metadata.store.etcd.gateway import Gateway, Message
from testing.process import etcd_peer
from testing.process.broker import BrokerProcess
from testing.process.etcd_peer import Certificates, EtcdPeer

PASSWORD = "a secret with = and ü"
ROLE = "brokers"


def steps_to_users() -> list[tuple[str, Message]]:
    """Return the requests that have etcd demand a user; `pybroker` may change what begins with its namespace, nothing else."""
    key = {"key": messages.text(b"pybroker/"), "range_end": messages.end_of("pybroker/"), "permType": "READWRITE"}
    return [
        ("user/add", {"name": "root", "password": "root's"}),
        ("role/add", {"name": "root"}),
        ("user/grant", {"user": "root", "role": "root"}),
        ("user/add", {"name": "pybroker", "password": PASSWORD}),
        ("role/add", {"name": ROLE}),
        ("role/grant", {"name": ROLE, "perm": key}),
        ("user/grant", {"user": "pybroker", "role": ROLE}),
        ("enable", {}),
    ]


async def enable_users(etcd: EtcdPeer) -> None:
    gateway = Gateway(parse(etcd.urls).endpoints)
    for path, message in steps_to_users():
        await gateway.call(f"/v3/auth/{path}", message)
    gateway.close()


@pytest.fixture
def guarded() -> Iterator[EtcdPeer]:
    with etcd_peer.running() as etcd:
        asyncio.run(enable_users(etcd))
        yield etcd


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates")


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig(**settings)


def test_a_user_commits_and_follows_also_after_etcd_has_forgotten_its_token(guarded: EtcdPeer) -> None:
    async def run() -> list[str]:
        access = config(metadata_store_user="pybroker", metadata_store_password=PASSWORD)
        store, seen = open_store(f"etcd:{guarded.urls}", owner="broker-1", config=access), list[Change]()
        store.watch("", seen.extend)
        session = await store.open_session(ttl_ms=60_000, renew_ms=500)
        await store.commit(puts={"before": b"1"}, session=session)
        (member,) = guarded.members
        member.kill()  # a member has its tokens in memory
        guarded.start(member)
        await asyncio.to_thread(guarded.become_ready)
        await store.commit(puts={"after": b"2"}, session=session)
        await session.close()
        await store.close()
        return [change.key for change in seen]

    assert asyncio.run(run()) == ["before", "after", "after", "before"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "user name is empty"),
        ({"metadata_store_user": "pybroker", "metadata_store_password": "wrong"}, "authentication failed"),
        ({"metadata_store_user": "root", "metadata_store_password": PASSWORD}, "authentication failed"),
    ],
)
def test_a_wrong_user_is_refused_with_etcds_reason(guarded: EtcdPeer, settings: dict[str, str], reason: str) -> None:
    async def run() -> None:
        store = open_store(f"etcd:{guarded.urls}", owner="broker-1", config=config(**settings))
        try:
            await store.commit(puts={"k": b""})
        finally:
            await store.close()

    with pytest.raises(StoreError, match=reason):
        asyncio.run(run())


def test_a_user_without_the_right_is_refused(guarded: EtcdPeer) -> None:
    async def run() -> None:
        access = config(metadata_store_user="pybroker", metadata_store_password=PASSWORD)
        store = open_store(f"etcd:{guarded.urls}/other", owner="broker-1", config=access)
        try:
            await store.commit(puts={"k": b""})
        finally:
            await store.close()

    with pytest.raises(StoreError, match="permission denied"):
        asyncio.run(run())


def test_a_broker_starts_with_the_password_of_a_file_and_never_shows_it(guarded: EtcdPeer, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    settings = {
        "metadata.store": f"etcd:{guarded.urls}",
        "metadata.store.user": "pybroker",
        "metadata.store.password.file": str(tmp_path / "password"),
    }
    broker = BrokerProcess(tmp_path / "data", settings)
    try:
        broker.start()
        broker.stop()
        assert PASSWORD not in broker.log_text
        (tmp_path / "password").write_text("wrong")
        with pytest.raises(RuntimeError, match="authentication failed"):
            broker.start()
    finally:
        broker.close()


def test_a_broker_shows_its_certificate_and_checks_that_of_etcd(certificates: Certificates, tmp_path: Path) -> None:
    with etcd_peer.running(certificates=certificates) as etcd:
        certificate, key = certificates.client
        settings = {
            "metadata.store": f"etcd:{etcd.urls}",
            "metadata.store.ssl.ca.file": str(certificates.ca[0]),
            "metadata.store.ssl.certificate.file": str(certificate),
            "metadata.store.ssl.key.file": str(key),
        }
        broker = BrokerProcess(tmp_path / "data", settings)
        try:
            broker.start()
            broker.stop()
        finally:
            broker.close()

        async def refused(**files: str) -> str:
            store = open_store(f"etcd:{etcd.urls}", owner="broker-1", config=config(**files))
            store._patience_s = 0.2  # type: ignore[attr-defined]  # the same fault would be tried for 10 s
            try:
                with pytest.raises(StoreError) as caught:
                    await store.commit(puts={"k": b""})
                return str(caught.value)
            finally:
                await store.close()

        assert "CERTIFICATE_VERIFY_FAILED" in asyncio.run(refused())
        reason = asyncio.run(refused(metadata_store_ssl_ca_file=str(certificates.ca[0])))
        assert re.search("bad.certificate|certificate.required", reason, re.IGNORECASE), reason
