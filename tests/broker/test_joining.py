"""A broker joins its cluster once, at an address that others can know, and a broker that is alone pays nothing for it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from pybroker.broker import joining
from pybroker.broker.joining import Membership, StartError, read_cluster
from pybroker.broker.registration import (
    inter_broker_listener,
    refuse_address_of_another,
    registration_in_cluster,
    warn_of_unresolved,
)
from pybroker.clock import ManualClock
from pybroker.config.broker import BrokerConfig
from pybroker.config.hosts import HostLookups
from pybroker.config.load import load
from pybroker.config.setting import ConfigError
from pybroker.log.checkpoints import checkpoint
from pybroker.log.files.filesystem import Filesystem
from pybroker.metadata.controller import Controller
from pybroker.metadata.member_entries import encode_session, session_key
from pybroker.metadata.members import BrokerRegistration, BrokerSession, Endpoint
from pybroker.metadata.store.base import StoreError, UnreachableError
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId
from pybroker.network.limits import BoundListener

FS = Filesystem()


def config(folder: Path = Path("/nowhere"), **options: Any) -> BrokerConfig:
    given = {"metadata_store": "etcd:http://127.0.0.1:1", "log_dirs": (str(folder),), "broker_session_timeout_ms": 1, **options}
    return BrokerConfig(node_id=1, **given)


def bound(*listeners: tuple[str, str, int]) -> list[BoundListener]:
    return [BoundListener(name=name, host=host, port=port) for name, host, port in listeners]


def test_a_listener_at_a_certain_host_has_that_address_and_an_advertised_one_its_own() -> None:
    protocols = "PLAINTEXT:PLAINTEXT,OUT:PLAINTEXT"
    made = config(listeners="PLAINTEXT://10.0.0.5:0,OUT://0.0.0.0:9093", listener_security_protocol_map=protocols)
    at = bound(("PLAINTEXT", "10.0.0.5", 1234), ("OUT", "0.0.0.0", 9093))
    assert registration_in_cluster(made, at).endpoints == {"PLAINTEXT": Endpoint("10.0.0.5", 1234)}
    made = config(
        listeners="PLAINTEXT://10.0.0.5:0,OUT://0.0.0.0:9093",
        listener_security_protocol_map=protocols,
        advertised_listeners="OUT://kafka.example:19093",
    )
    endpoints = registration_in_cluster(made, at).endpoints
    assert endpoints == {"PLAINTEXT": Endpoint("10.0.0.5", 1234), "OUT": Endpoint("kafka.example", 19093)}


@pytest.mark.parametrize("advertised", [None, "PLAINTEXT://:9092"])
def test_a_listener_without_a_host_has_the_name_of_the_machine(advertised: str | None) -> None:
    made = config(listeners="PLAINTEXT://:9092", advertised_listeners=advertised)
    registered = registration_in_cluster(made, bound(("PLAINTEXT", "0.0.0.0", 9092)))
    assert registered.endpoints == {"PLAINTEXT": Endpoint(socket.gethostname(), 9092)}


@pytest.mark.parametrize(("host", "lines"), [("nowhere.invalid", 1), ("127.0.0.1", 0), ("localhost", 0)])
async def test_a_host_that_this_machine_cannot_resolve_is_a_warning(
    host: str, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    made = config(listeners="PLAINTEXT://127.0.0.1:0", advertised_listeners=f"PLAINTEXT://{host}:9092")
    await warn_of_unresolved(made, registration_in_cluster(made, bound(("PLAINTEXT", "127.0.0.1", 1234))))
    assert len(caplog.messages) == lines
    assert all(
        "this machine cannot resolve nowhere.invalid (" in line and "listener PLAINTEXT" in line for line in caplog.messages
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_other_brokers_must_be_able_to_know_the_address(host: str) -> None:
    made = config(listeners=f"PLAINTEXT://{host}:9092")
    with pytest.raises(
        ConfigError, match=r"listeners=PLAINTEXT.*: the listener PLAINTEXT is at every.*: set advertised\.listeners"
    ):
        Membership(Controller(MemoryStore(), made, broker_id=BrokerId(1)), MemoryStore(), made, ManualClock())


def test_an_address_of_another_live_broker_is_refused() -> None:
    made = config(listeners="PLAINTEXT://127.0.0.1:0", advertised_listeners="PLAINTEXT://kafka-1:9092")
    own = registration_in_cluster(made, bound(("PLAINTEXT", "127.0.0.1", 1234)))
    refuse_address_of_another(made, own, {own.broker_id: own})
    other = BrokerRegistration(broker_id=BrokerId(2), endpoints={"PLAINTEXT": Endpoint("kafka-1", 9092)})
    with pytest.raises(ConfigError, match=r"advertised\.listeners=.*: broker 2 is reached at kafka-1:9092"):
        refuse_address_of_another(made, own, {other.broker_id: other})


def test_the_listener_for_brokers_is_the_named_one_or_the_first() -> None:
    listeners = "IN://10.0.0.5:1,OUT://0.0.0.0:2"
    protocols = "IN:PLAINTEXT,OUT:PLAINTEXT"
    made = config(listeners=listeners, listener_security_protocol_map=protocols)
    assert inter_broker_listener(made) == "IN"
    made = config(listeners=listeners, listener_security_protocol_map=protocols, inter_broker_listener_name="out")
    assert inter_broker_listener(made) == "OUT"
    with pytest.raises(ConfigError, match="the listener OUT is at every interface"):
        registration_in_cluster(made, bound(("IN", "10.0.0.5", 1), ("OUT", "0.0.0.0", 2)))


def test_a_store_that_cannot_be_reached_is_named_by_the_property_that_was_written() -> None:
    error = UnreachableError("no member of etcd can be reached (http://a:2379: Connection refused)")
    written = load(overrides={"metadata.store": "etcd:http://a:2379"}).config
    assert str(joining.start_error(written, error)) == (
        f"metadata.store=etcd:http://a:2379: {error}. Start etcd there, or correct metadata.store, then start the broker again"
    )
    assert str(joining.start_error(config(), error)).startswith("The controllers do not respond: no member of etcd")
    assert str(joining.start_error(written, StoreError("damaged"))) == "damaged"


class Scene:
    """A data directory of broker 1, and a store in which a life of broker 1 has `directory`."""

    def __init__(self, folder: Path, directory: str | None) -> None:
        self.folder, self.store = folder, MemoryStore()
        properties = checkpoint.MetaProperties(cluster_id="c", node_id=BrokerId(1), directory_id="mine")
        checkpoint.write_meta_properties(FS, str(folder), properties)
        self.directory = directory

    async def read(self, **options: Any) -> Controller:
        await self.store.commit(puts={"cluster/id": b"c"})
        if self.directory is not None:
            life = BrokerSession(directory=self.directory, host="elsewhere", started_ms=0)
            await self.store.commit(puts={session_key(BrokerId(1)): encode_session(life)})
        return await read_cluster(self.store, config(self.folder, **options), FS, HostLookups())


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "LOOK_S", 0.001)


@pytest.mark.parametrize("directory", [None, "mine"])
async def test_a_process_that_died_with_these_directories_is_not_waited_for(tmp_path: Path, directory: str | None) -> None:
    controller = await Scene(tmp_path, directory).read(broker_session_timeout_ms=1_000_000)
    assert controller.image.cluster_id == "c"


async def test_another_process_with_the_node_id_is_waited_for_and_refused_without_a_change(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "other")
    with pytest.raises(
        StoreError, match=r"node\.id=1: is in use by a process on elsewhere with its data in the log directory with the id other"
    ):
        await scene.read()
    assert (await scene.store.list()).revision == 2


async def test_another_process_with_the_node_id_that_ends_meanwhile_is_followed(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "other")
    reading = asyncio.ensure_future(scene.read(broker_session_timeout_ms=1_000_000))
    await asyncio.sleep(0.01)
    assert not reading.done()
    await scene.store.commit(deletes=[session_key(BrokerId(1))])
    assert (await reading).image.cluster_id == "c"


async def test_a_log_directory_that_another_process_has_refuses_the_start_before_any_change(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "mine")
    lock = FS.lock(f"{tmp_path}/.lock")
    try:
        with pytest.raises(StartError, match=f"Another process uses the log directory {tmp_path}"):
            await scene.read()
    finally:
        FS.close(lock)
    assert (await scene.store.list()).revision == 2


async def test_a_broker_that_is_alone_writes_one_entry_in_memory_and_changes_its_addresses() -> None:
    store, made = MemoryStore(), config(metadata_store="memory:", advertised_listeners="PLAINTEXT://h:0")
    controller = Controller(store, made, broker_id=BrokerId(1))
    await controller.start()
    membership = Membership(controller, store, made, ManualClock())
    assert membership.is_alone
    await membership.claimed([])
    await membership.join([])
    before = {entry.key for entry in (await store.list()).entries}
    assert before == {"cluster/id", "brokers/1", "sessions/1"}
    await membership.join(bound(("PLAINTEXT", "127.0.0.1", 77)))
    assert controller.image.brokers[BrokerId(1)].endpoints == {"PLAINTEXT": Endpoint("h", 77)}
    await membership.leave()
    await membership.close()
    assert {entry.key for entry in (await store.list()).entries} == before


async def test_a_store_that_had_several_brokers_is_that_of_a_cluster() -> None:
    store, made = MemoryStore(), config(metadata_store="memory:")
    controller = Controller(store, made, broker_id=BrokerId(1))
    await controller.start()
    await controller.register_broker(BrokerRegistration(broker_id=BrokerId(2), endpoints={}))
    membership = Membership(controller, store, made, ManualClock())
    assert not membership.is_alone
    await membership.claimed([])
    await membership.join(bound(("PLAINTEXT", "127.0.0.1", 77)))
    assert controller.image.brokers[BrokerId(1)].endpoints == {"PLAINTEXT": Endpoint("127.0.0.1", 77)}
    await membership.close()
    assert controller.image.brokers == {}


async def test_a_cluster_id_that_differs_from_that_of_the_store_is_refused(tmp_path: Path) -> None:
    store = MemoryStore()
    await Controller(store, config(), broker_id=BrokerId(2)).start("theirs")
    with pytest.raises(StoreError, match=r"cluster\.id=ours: the metadata store etcd:.* is that of the cluster theirs"):
        await read_cluster(store, config(tmp_path, cluster_id="ours"), FS, HostLookups({}))
