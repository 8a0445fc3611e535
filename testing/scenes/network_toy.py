"""A server on either event loop with a handler that obeys the first byte of a request, and clients of the server."""

from __future__ import annotations

import asyncio
import socket
import struct
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import uvloop

from pybroker.clock import SystemClock
from pybroker.network.context import ConnectionContext, EncodedResponse, Outgoing, ProtocolViolation
from pybroker.network.limits import BoundListener, Listener, NetworkLimits
from pybroker.network.memory_pool import MemoryPool, PooledBuffer
from pybroker.network.server import SocketServer
from pybroker.protocol.parts import SendPart

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
PATIENCE_S = 30
BLOCK = bytes(1024 * 1024)

T = TypeVar("T")


def run(loop: str, scenario: Callable[[], Awaitable[T]]) -> T:
    """Run `scenario` on a new loop of the kind; an exception that only the loop saw also fails it.

    Its clean-up has a limit too: `asyncio.wait_for` would wait for the end of a cancelled scenario as long as that takes.
    """
    strays: list[dict[str, object]] = []

    async def main() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: strays.append(context))
        task = asyncio.ensure_future(scenario())
        await asyncio.wait({task}, timeout=PATIENCE_S)
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=PATIENCE_S)
            raise TimeoutError(f"the scenario did not end within {PATIENCE_S} s") from _error_of(task)
        return await task

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        result = runner.run(main())
    assert strays == [], strays
    return result


def _error_of(task: asyncio.Future[T]) -> BaseException | None:
    """Return what a task raised in its clean-up, if anything."""
    return None if not task.done() or task.cancelled() else task.exception()


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until `condition`; `run` limits how long."""
    while not condition():  # noqa: ASYNC110  (the conditions read plain counters, which notify no task)
        await asyncio.sleep(0.001)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Endless(SendPart):
    """A part of zeros without memory of their own, which counts the bytes pulled."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.pulled = 0
        self.closed = 0

    def pull(self, bytes_max: int) -> Sequence[bytes | memoryview]:
        count = min(bytes_max, self.size - self.pulled, len(BLOCK))
        self.pulled += count
        return [memoryview(BLOCK)[:count]] if count else []

    def close(self) -> None:
        self.closed += 1


class Chunk(bytearray):
    """Bytes made on demand, in an object that a weak reference can watch."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # two chunks differ, whatever they hold


class Made(Endless):
    """A part that makes its zeros a chunk at a time. `alive_max` is the largest number of chunks alive when a chunk was made,
    including that chunk.
    """

    makes_bytes = True
    CHUNK_BYTES = 128 * 1024

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.alive: weakref.WeakSet[Chunk] = weakref.WeakSet()
        self.alive_max = 0

    def pull(self, bytes_max: int) -> Sequence[bytes | memoryview]:
        count = min(self.CHUNK_BYTES, self.size - self.pulled)
        self.pulled += count
        if not count:
            return []
        chunk = Chunk(count)
        self.alive.add(chunk)
        self.alive_max = max(self.alive_max, len(self.alive))
        return [memoryview(chunk)]


class PeakPool(MemoryPool):
    """A memory pool that remembers the most bytes ever in use."""

    peak = 0

    def try_allocate(self, size: int, *, come: int = 0) -> PooledBuffer | None:
        buffer = super().try_allocate(size, come=come)
        self.peak = max(self.peak, self.used)
        return buffer


class Toy:
    """The handler, which obeys the first byte of a request.

    e echoes the rest; l echoes it in the loop's next turn; p parks the request until the test responds; n sends no response; b
    sends the number of zeros that the rest gives in decimal, m the same number made in chunks; c echoes and closes; v breaks the
    protocol; x is a bug.
    """

    def __init__(self) -> None:
        self.handled: list[tuple[int, bytes]] = []  # connection id, request (its first 20 bytes)
        self.parked: list[asyncio.Future[EncodedResponse]] = []
        self.parts: list[Endless] = []
        self.sent = 0

    def __call__(self, context: ConnectionContext, frame: memoryview) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        self.handled.append((context.connection_id, bytes(frame[:20])))
        match frame[:1].tobytes():
            case b"e":
                return framed(bytes(frame[1:]))
            case b"p":
                future: asyncio.Future[EncodedResponse] = asyncio.get_running_loop().create_future()
                self.parked.append(future)
                return future
            case b"l":
                loop = asyncio.get_running_loop()
                later: asyncio.Future[EncodedResponse] = loop.create_future()
                loop.call_soon(later.set_result, framed(bytes(frame[1:])))
                return later
            case b"n":
                return None
            case b"b" | b"m":
                part = (Made if frame[0] == ord("m") else Endless)(int(bytes(frame[1:])))
                self.parts.append(part)
                return Outgoing([struct.pack(">i", part.size), part], part.size + 4, self.on_sent)
            case b"c":
                return Outgoing([framed(bytes(frame[1:]))], len(frame) + 3, self.on_sent, close_after=True)
            case b"v":
                raise ProtocolViolation("a request that breaks the protocol")
            case _:
                raise ValueError("a bug")

    def on_sent(self) -> None:
        self.sent += 1


class Client:
    """A peer that speaks frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *bodies: bytes) -> None:
        self.writer.write(b"".join(map(framed, bodies)))

    async def receive(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        """Wait for the end of the server's stream; True when nothing came before it."""
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return  # the connection is closed in this case too


class ServerScene:
    """A running server and its clients."""

    def __init__(self, server: SocketServer, toy: Toy, bound: BoundListener, pool: PeakPool) -> None:
        self.server = server
        self.toy = toy
        self.bound = bound
        self.pool = pool
        self.clients: list[Client] = []
        self.sockets: list[socket.socket] = []

    @property
    def counters(self) -> dict[str, int]:
        counters = self.server.listener_counters[self.bound.name]
        return {name: getattr(counters, name) for name in counters.__slots__ if name != "name"}

    async def client(self, local_host: str | None = None) -> Client:
        local = (local_host, 0) if local_host is not None else None
        reader, writer = await asyncio.open_connection(self.bound.host, self.bound.port, local_addr=local, limit=1 << 22)
        client = Client(reader, writer)
        self.clients.append(client)
        return client

    def raw(self, receive_buffer_bytes: int | None = None) -> socket.socket:
        """Return a connected blocking socket, whose bytes arrive before the server's loop runs again."""
        raw = socket.socket()
        self.sockets.append(raw)
        if receive_buffer_bytes is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        raw.connect((self.bound.host, self.bound.port))
        return raw


@asynccontextmanager
async def serving(limits: NetworkLimits | None = None, pool_bytes: int = -1) -> AsyncIterator[ServerScene]:
    """Run a server with the toy handler; at the end, assert that all memory and connections were given back."""
    toy, pool = Toy(), PeakPool(pool_bytes, SystemClock())
    server = SocketServer([Listener(host="127.0.0.1")], toy, pool, limits or NetworkLimits())
    (bound,) = await server.start()
    scene = ServerScene(server, toy, bound, pool)
    try:
        yield scene
    except BaseException:
        for client in scene.clients:  # a close would wait until the server has read everything, and it may never do so now
            client.writer.transport.abort()
        raise
    finally:
        for client in scene.clients:
            await client.close()
        for raw in scene.sockets:
            raw.close()
        await server.stop(200)
    assert (pool.used, pool.lost_count, server.admission.waiting, server.admission.queued_requests) == (0, 0, 0, 0)
    assert (server.connections_open, scene.counters["connections_open"]) == (0, 0)
    assert scene.counters["connections_created"] == scene.counters["connections_closed"]
    assert all(part.closed == 1 for part in toy.parts)
