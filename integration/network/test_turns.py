"""Every way from the event loop into a running broker is marked as a turn, and a turn that is too long fails a broker's test."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from confluent_kafka import Consumer

from pybroker.broker.broker_server import BrokerServer
from pybroker.config.load import load
from pybroker.network import connection
from pybroker.sharing.turns.loop import new_event_loop
from pybroker.sharing.turns.watchdog import SWITCH, Watchdog
from testing.clients.stock import confluent_produce, create_topic, delete_topic
from testing.places import ROOT
from testing.process.broker import own_brokers
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire.batches import sample_batch

METHODS = {"connection_made", "get_buffer", "buffer_updated", "eof_received", "connection_lost", "resume_writing"}
"""The methods that a transport calls. It calls `pause_writing` too, but from within a turn that writes."""
MARKING = str(ROOT / "pybroker" / "sharing" / "turns")


class Finder:
    """A profile function for the loop's thread, which finds Python code below `folder` that runs outside of a turn.

    The outermost function that runs while no turn is open must have begun and ended one when it returns.
    """

    def __init__(self, watchdog: Watchdog, folder: Path) -> None:
        self._watchdog = watchdog
        self._folder = str(folder)
        self._outermost: FrameType | None = None
        self._turns = 0
        self.unmarked: set[str] = set()
        self.marked: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and self._outermost is None and not self._watchdog.watch.is_open and self._is_ours(frame):
            self._outermost, self._turns = frame, self._watchdog.lengths.count
        elif event == "return" and frame is self._outermost:
            self._outermost = None
            (self.marked if self._watchdog.lengths.count > self._turns else self.unmarked).add(frame.f_code.co_qualname)

    def _is_ours(self, frame: FrameType) -> bool:
        name = frame.f_code.co_filename
        return name.startswith(self._folder) and not name.startswith(MARKING)


async def serve_with(finder: Callable[..., None], folder: Path) -> None:
    """Run a broker that clients use, with `finder` as the profile function of the loop's thread.

    The clients are another process: librdkafka's destructors hold the interpreter while they wait for the broker.
    """
    overrides = {"log.dirs": str(folder), "listeners": "PLAINTEXT://127.0.0.1:0", "group.initial.rebalance.delay.ms": "0"}
    broker = BrokerServer(load(file=None, environment={}, overrides=overrides, port=None).config)
    (bound,) = await broker.start()
    loop = asyncio.get_running_loop()
    loop.call_soon(sys.setprofile, finder)
    try:
        code = f"from integration.network.test_turns import use_everything; use_everything('{bound.host}:{bound.port}')"
        clients = await asyncio.create_subprocess_exec(sys.executable, "-c", code, cwd=ROOT)
        assert await asyncio.wait_for(clients.wait(), 120) == 0
    finally:
        loop.call_soon(sys.setprofile, None)
        await broker.stop()


def use_everything(bootstrap: str) -> None:
    """Produce, consume in a group, wait for data, read slowly, and end connections in each way."""
    create_topic(bootstrap, "small", 3)
    confluent_produce({"bootstrap.servers": bootstrap}, "small", [Sample(b"k", b"v", T0_MS)] * 100)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "group", "auto.offset.reset": "earliest"})
    consumer.subscribe(["small"])
    assert len(consumer.consume(100, 60)) == 100
    consumer.close()
    create_topic(bootstrap, "large")
    data = sample_batch([Sample(None, b"v" * 100_000, T0_MS)] * 5)
    with raw.Connection(bootstrap) as one:
        for _ in range(40):
            assert raw.produce(one, 7, "large", data).error == 0
        end = raw.Ask(topic="large", offset=200)
        one.call(raw.FETCH, 11, raw.fetch_body(11, [end], wait_ms=100))  # in vain
        size = struct.pack(">i", 100)
        one.socket.sendall(size + bytes(10))  # and no more
    everything = raw.fetch_body(11, [raw.Ask(topic="large", bytes_max=20_000_000)])
    with raw.Connection(bootstrap) as slow:
        slow.send(raw.FETCH, 11, everything)
        slow.receive_exactly(12_000_000)  # and no more
    with raw.Connection(bootstrap) as half:
        correlation_id = half.send(raw.FETCH, 11, everything)
        half.socket.shutdown(socket.SHUT_WR)
        assert len(half.receive(correlation_id)) > 20_000_000 - 1_000_000
    delete_topic(bootstrap, "small")


def test_every_entry_into_a_running_broker_is_marked(tmp_path: Path) -> None:
    watchdog = Watchdog()
    finder = Finder(watchdog, ROOT / "pybroker")
    with asyncio.Runner(loop_factory=lambda: new_event_loop(watchdog)) as runner:
        runner.run(serve_with(finder, tmp_path / "data"))
    assert finder.unmarked == set()
    assert watchdog.lengths.count > 100
    if not connection.IS_NATIVE:  # else these methods run no Python function
        assert {name.rpartition(".")[2] for name in finder.marked} >= METHODS


def test_an_entry_without_a_mark_is_found() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        received: asyncio.Future[bytes] = loop.create_future()

        class Unmarked(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                received.set_result(data)

        ours, theirs = socket.socketpair()
        await loop.connect_accepted_socket(Unmarked, ours)
        started = loop.create_future()
        loop.call_soon(sys.setprofile, finder)
        loop.call_soon(started.set_result, None)
        await started
        theirs.send(b"x")
        await asyncio.wait_for(received, 60)
        loop.call_soon(sys.setprofile, None)
        theirs.close()

    watchdog = Watchdog()
    finder = Finder(watchdog, Path(__file__).parent)
    with asyncio.Runner(loop_factory=lambda: new_event_loop(watchdog)) as runner:
        runner.run(main())
    assert [name.rpartition(".")[2] for name in finder.unmarked] == ["data_received"]


def test_a_broker_with_a_turn_that_is_too_long_ends_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "fail:0")
    with pytest.raises(AssertionError, match="turns of the broker's loop were too long"), own_brokers(tmp_path) as start:  # noqa: PT012
        broker = start({"listeners": "PLAINTEXT://127.0.0.1:0"})
        create_topic(broker.bootstrap, "topic")
        with pytest.raises(RuntimeError, match="ended with 1"):
            broker.stop()
    broker.log_file.unlink()  # this test has judged it
