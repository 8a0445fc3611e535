"""Two brokers in one process start, serve and stop without meeting, and change nothing that belongs to the process."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from pybroker.broker import descriptors, free_memory, process
from pybroker.broker.broker_server import BrokerServer
from pybroker.broker.joining import StartError
from pybroker.broker.lifecycle import Lifecycle
from pybroker.config.broker import BrokerConfig
from pybroker.config.load import load
from pybroker.log.files.open_files import OPEN_FILES
from pybroker.metadata.controller import Controller
from testing.wire.one_request import Wire, values

T0_MS = 1_700_000_000_000


class LoadedError(Exception):
    """The groups are loaded, which ends the process."""


class EndsWhenLoaded(Lifecycle):
    """A lifecycle that ends its process when the groups are loaded."""

    async def announce(self, _node_id: object, _bound: object, groups_loaded: Callable[[], Awaitable[None]]) -> None:
        await groups_loaded()
        raise LoadedError


@pytest.fixture
def _process_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put back what a process that is a broker sets for itself."""
    interval_s = sys.getswitchinterval()
    monkeypatch.setattr(descriptors, "allow_many", lambda: None)
    yield
    sys.setswitchinterval(interval_s)


def config_of(folder: Path) -> BrokerConfig:
    overrides = {"log.dirs": str(folder), "listeners": "PLAINTEXT://127.0.0.1:0", "offsets.topic.num.partitions": "1"}
    overrides["offsets.load.buffer.size"] = "1"
    return load(overrides=overrides).config


async def started(folder: Path) -> tuple[BrokerServer, str]:
    broker = BrokerServer(config_of(folder))
    (bound,) = await broker.start()
    return broker, f"{bound.host}:{bound.port}"


def use(bootstrap: str, text: bytes, offset: int) -> None:
    """Create a topic, write a record to it, and commit an offset."""
    wire = Wire(bootstrap)
    try:
        assert wire.create_topic("t", 1, {}) == 0
        assert wire.produce("t", 0, values(0, [(None, text)], T0_MS)) == (0, 0)
        assert wire.commit("group", "t", 0, offset) == 0
    finally:
        wire.close()


def check(bootstrap: str, text: bytes, offset: int) -> None:
    """Check that the broker has what `use` wrote to it."""
    wire = Wire(bootstrap)
    try:
        assert [record.value for record in wire.read_all("t", 0).records] == [text]
        assert wire.committed("group", "t", 0) == (0, offset)
    finally:
        wire.close()


def shares_in_turn(monkeypatch: pytest.MonkeyPatch, *limits: int) -> list[int]:
    """Let the brokers that start next find these limits; return their shares for data files."""
    found = [descriptors.shares(limit) for limit in limits]
    left = iter(found)
    monkeypatch.setattr(descriptors, "shares_of_process", lambda: next(left))
    return [one.data_files for one in found]


async def test_two_brokers_serve_and_stop_without_meeting(tmp_path: Path) -> None:
    first, first_address = await started(tmp_path / "first")
    second, second_address = await started(tmp_path / "second")
    await asyncio.gather(asyncio.to_thread(use, first_address, b"one", 11), asyncio.to_thread(use, second_address, b"two", 22))
    await asyncio.to_thread(check, first_address, b"one", 11)
    await first.stop()
    await asyncio.to_thread(check, second_address, b"two", 22)
    again, again_address = await started(tmp_path / "first")
    await asyncio.to_thread(check, again_address, b"one", 11)
    await second.stop()
    await asyncio.to_thread(check, again_address, b"one", 11)
    await again.stop()


async def test_the_bound_of_open_files_is_that_of_the_brokers_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPEN_FILES, "_shares", [])
    monkeypatch.setattr(OPEN_FILES, "held_max", sys.maxsize)
    many, few = shares_in_turn(monkeypatch, 4096, 256)
    first, _ = await started(tmp_path / "first")
    assert OPEN_FILES.held_max == many
    second, _ = await started(tmp_path / "second")
    assert OPEN_FILES.held_max == many > few
    await first.stop()
    assert OPEN_FILES.held_max == few
    await second.stop()
    assert OPEN_FILES.held_max == sys.maxsize


async def test_a_start_that_fails_leaves_no_bound_of_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(Lifecycle):
        async def before_sockets(self, controller: Controller) -> str | None:
            return "refused by the test"

    monkeypatch.setattr(OPEN_FILES, "_shares", [])
    monkeypatch.setattr(OPEN_FILES, "held_max", sys.maxsize)
    with pytest.raises(StartError, match="refused by the test"):
        await BrokerServer(config_of(tmp_path), lifecycle=Refusing()).start()
    assert OPEN_FILES.held_max == sys.maxsize


@pytest.mark.usefixtures("_process_as_before")
def test_only_a_process_that_is_a_broker_freezes_loaded_groups_and_sets_its_allocator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def use_twice(address: str) -> None:
        use(address, b"one", 11)
        wire = Wire(address)
        assert wire.commit("group", "t", 0, 12) == 0, "in a second batch, which is read for itself"
        wire.close()

    async def commit() -> None:
        broker, address = await started(tmp_path)
        await asyncio.to_thread(use_twice, address)
        await broker.stop()

    async def load_embedded() -> None:
        broker, _ = await started(tmp_path)
        await broker.groups_loaded()
        await broker.stop()

    freezes: list[str] = []
    allocators: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: freezes.append("all objects"))
    monkeypatch.setattr(free_memory, "trim_function", lambda: allocators.append("its bounds"))
    asyncio.run(commit())
    asyncio.run(load_embedded())
    assert not freezes
    assert not allocators
    with pytest.raises(LoadedError):
        process.run(config_of(tmp_path), EndsWhenLoaded(), stop_signals=())
    assert freezes
    assert allocators
