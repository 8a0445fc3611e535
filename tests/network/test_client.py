"""A connection to another broker takes frames apart, and ends once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pybroker.network.client import FRAME_BYTES_MAX, ClientConnection
from pybroker.sharing.turns.loop import new_event_loop
from pybroker.sharing.turns.watchdog import Watchdog, watchdog_of

if TYPE_CHECKING:
    from collections.abc import Callable

LOOPS = [pytest.param(True, id="uvloop"), pytest.param(False, id="asyncio")]


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False
        self.written: list[Any] = []

    def abort(self) -> None:
        self.is_aborted = True

    def writelines(self, parts: Any) -> None:
        self.written += parts


class Scene:
    """A connection whose peer is the test."""

    def __init__(self) -> None:
        self.frames: list[memoryview] = []
        self.reasons: list[str] = []
        self.transport = FakeTransport()
        self.connection = ClientConnection(self.frames.append, self.reasons.append)
        self.connection.connection_made(self.transport)

    def receive(self, data: bytes, step: int = 1 << 30) -> None:
        """Let bytes come, at most `step` at a time."""
        while data and not self.transport.is_aborted:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(data), step)
            buffer[:count] = data[:count]
            self.connection.buffer_updated(count)
            data = data[count:]


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


@pytest.mark.parametrize("step", [1, 3, 7, 1 << 30])
async def test_frames_come_whole_and_in_order_however_their_bytes_arrive(step: int) -> None:
    scene = Scene()
    bodies = [b"0123", b"a longer frame", b"4567"]
    scene.receive(b"".join(map(frame, bodies)), step)
    assert [bytes(one) for one in scene.frames] == bodies
    assert not scene.reasons


async def test_a_frame_has_a_buffer_of_its_own_which_later_frames_leave_alone() -> None:
    scene = Scene()
    scene.receive(frame(b"first"))
    kept = scene.frames[0][1:]
    scene.receive(frame(b"other"))
    assert bytes(kept) == b"irst"
    assert not kept.readonly


@pytest.mark.parametrize("size", [-1, 0, 3, FRAME_BYTES_MAX + 1, int.from_bytes(b"HTTP")])
async def test_a_size_that_no_response_has_ends_the_connection(size: int) -> None:
    scene = Scene()
    scene.receive(size.to_bytes(4, signed=True) + b"more")
    assert scene.transport.is_aborted
    assert scene.reasons == [f"the size of a response is {size} bytes"]
    scene.connection.connection_lost(None)
    assert len(scene.reasons) == 1


async def test_a_size_for_which_there_is_no_memory_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_size: int) -> bytearray:
        raise MemoryError

    scene = Scene()
    monkeypatch.setattr("pybroker.network.client.untouched", refuse)
    scene.receive(frame(b"body"))
    assert scene.reasons == ["there is no memory for a response of 4 bytes"]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda one: one.connection_lost(None), "the broker closed the connection"),
        (lambda one: one.connection_lost(ConnectionResetError("reset")), "reset"),
        (lambda one: one.close("this broker stops"), "this broker stops"),
    ],
)
async def test_the_end_is_reported_once_and_nothing_is_sent_after_it(
    end: Callable[[ClientConnection], None], reason: str
) -> None:
    scene = Scene()
    end(scene.connection)
    scene.connection.close("again")
    scene.connection.connection_lost(None)
    scene.connection.send([b"late"])
    assert scene.reasons == [reason]
    assert not scene.transport.written


async def test_parts_are_handed_over_as_they_are() -> None:
    scene = Scene()
    parts: list[bytes | bytearray | memoryview] = [b"head", memoryview(bytes(1 << 20))]
    scene.connection.send(parts)
    assert all(one is other for one, other in zip(scene.transport.written, parts, strict=True))


async def test_a_response_is_a_turn_of_the_loop() -> None:
    depths: list[bool] = []
    watch = watchdog_of(asyncio.get_running_loop()).watch
    connection = ClientConnection(lambda _: depths.append(watch.is_open), lambda _: depths.append(watch.is_open))
    connection.connection_made(FakeTransport())
    for part in (b"\0\0\0\4", b"body"):
        connection.get_buffer(-1)[:] = part
        connection.buffer_updated(4)
    connection.connection_lost(None)
    assert depths == [True, True]


@pytest.mark.parametrize("with_uvloop", LOOPS)
def test_a_large_frame_comes_over_a_socket(with_uvloop: bool) -> None:
    sent = bytes(range(256)) * (3 << 12)  # 3 MiB

    async def run() -> list[Any]:
        async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(frame(sent) + frame(b"next"))
            await writer.drain()
            writer.close()

        got: list[Any] = []
        ended = asyncio.Event()

        def lost(reason: str) -> None:
            got.append(reason)
            ended.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        loop = asyncio.get_running_loop()
        connection = ClientConnection(lambda one: got.append(bytes(one)), lost)
        await loop.create_connection(lambda: connection, *server.sockets[0].getsockname())
        await asyncio.wait_for(ended.wait(), 30)
        server.close()
        await server.wait_closed()
        return got

    loop = new_event_loop(Watchdog(1 << 62), with_uvloop=with_uvloop)
    try:
        got = loop.run_until_complete(run())
    finally:
        loop.close()
    assert got == [sent, b"next", "the broker closed the connection"]
