"""Requests and responses over real sockets, on both event loops."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from pybroker.clock import SystemClock
from pybroker.network.connection import Connection
from pybroker.network.limits import Listener, NetworkLimits
from pybroker.network.memory_pool import MemoryPool
from pybroker.network.mute import MuteReason
from pybroker.network.sender import PIECE_BYTES
from pybroker.network.server import SocketServer
from testing.scenes.network_toy import LOOPS, Made, framed, run, serving, until

if TYPE_CHECKING:
    from pybroker.network.context import ConnectionContext

pytestmark = pytest.mark.parametrize("loop", LOOPS)


def test_pipelined_requests_get_their_responses_in_order(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            client = await scene.client()
            bodies = [b"%d:" % index + bytes(index % 7 * 50) for index in range(5000)]
            client.send(*(b"e" + body for body in bodies))
            for body in bodies:
                assert await client.receive() == body
            assert scene.counters["requests"] == 5000
            assert scene.counters["bytes_in"] == sum(len(body) + 5 for body in bodies)
            assert scene.counters["bytes_out"] == sum(len(body) + 4 for body in bodies)

    run(loop, scenario)


def test_pipelined_requests_that_are_parked_for_a_turn_get_their_responses_in_order(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            client = await scene.client()
            bodies = [b"%d:" % index + bytes(index % 7 * 150) for index in range(3000)]
            client.send(*(b"l" + body for body in bodies))
            for body in bodies:
                assert await client.receive() == body
            assert scene.counters["requests"] == 3000

    run(loop, scenario)


def test_large_requests_and_responses_mix_with_small_ones(loop: str) -> None:
    async def scenario() -> None:
        async with serving(pool_bytes=20_000_000) as scene:
            client = await scene.client()
            large = bytes(range(256)) * 12_000
            client.send(b"e1", b"e" + large, b"e2", b"b5000000", b"n", b"e3", b"b0", b"e4")
            expected = [b"1", large, b"2", bytes(5_000_000), b"3", b"", b"4"]
            assert [await client.receive() for _ in expected] == expected
            assert scene.toy.sent == 2

    run(loop, scenario)


def test_a_parked_request_holds_back_the_next_ones_but_no_memory(loop: str) -> None:
    async def scenario() -> None:
        async with serving(pool_bytes=2_000_000, limits=NetworkLimits(socket_request_max_bytes=1_000_000)) as scene:
            client = await scene.client()
            client.send(b"p" + bytes(500_000))
            await until(lambda: len(scene.toy.parked) == 1)
            assert scene.pool.peak == 500_001
            assert scene.pool.used == 0
            client.send(b"e" + bytes(300_000))
            (connection,) = scene.server._connections
            assert isinstance(connection, Connection)
            await until(lambda: connection.mute_reasons == {MuteReason.REQUEST_IN_WORK})
            assert scene.pool.used == 0
            assert len(scene.toy.handled) == 1
            scene.toy.parked[0].set_result(framed(b"parked"))
            assert await client.receive() == b"parked"
            assert await client.receive() == bytes(300_000)
            assert connection.mute_reasons == set()

    run(loop, scenario)


def test_parked_requests_in_a_pipeline_keep_the_order(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            client = await scene.client()
            client.send(b"e1", b"p", b"e3", b"p", b"n", b"e6")
            for number, text in ((1, b"2"), (2, b"4")):
                await until(lambda number=number: len(scene.toy.parked) == number)  # type: ignore[misc]  # bound at once
                scene.toy.parked[-1].set_result(framed(text))
            assert [await client.receive() for _ in range(5)] == [b"1", b"2", b"3", b"4", b"6"]

    run(loop, scenario)


def test_one_deep_pipeline_does_not_keep_others_waiting(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            deep, other = scene.raw(), scene.raw()
            await until(lambda: scene.server.connections_open == 2)
            deep.sendall(framed(b"n") * 8000)
            other.sendall(framed(b"e!"))
            await until(lambda: len(scene.toy.handled) == 8001)
            position = next(index for index, (_, request) in enumerate(scene.toy.handled) if request == b"e!")
            assert position <= 200

    run(loop, scenario)


def test_a_consumer_that_never_reads_is_bounded_and_others_are_served(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            lazy, client = scene.raw(receive_buffer_bytes=4096), await scene.client()
            lazy.sendall(framed(b"b1000000000") + framed(b"e"))
            (connection,) = [c for c in scene.server._connections if c.context.peer_port == lazy.getsockname()[1]]
            await until(lambda: connection._sender.is_blocked)
            pulled = scene.toy.parts[0].pulled
            for number in range(20):
                client.send(b"e%d" % number)
                assert await client.receive() == b"%d" % number
            assert scene.toy.parts[0].pulled == pulled <= 3 * PIECE_BYTES
            assert (scene.toy.sent, scene.toy.parts[0].closed) == (0, 0)
            lazy.close()
            await until(lambda: scene.server.connections_open == 1)
            assert (scene.toy.sent, scene.toy.parts[0].closed) == (1, 1)

    run(loop, scenario)


def test_one_chunk_of_the_bytes_made_for_a_response_is_in_memory(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            lazy, client = scene.raw(receive_buffer_bytes=4096), await scene.client()
            lazy.sendall(framed(b"m1000000000"))
            (connection,) = [c for c in scene.server._connections if c.context.peer_port == lazy.getsockname()[1]]
            await until(lambda: connection._sender.is_blocked)
            client.send(b"m20000000", b"eafter")
            assert await client.receive() == bytes(20_000_000)
            assert await client.receive() == b"after"
            held, read = scene.toy.parts
            assert isinstance(held, Made)
            assert isinstance(read, Made)
            # uvloop's writer still refers to what it has just sent as a whole when it asks for more
            alive_max = 2 if loop == "uvloop" else 1
            assert 1 <= held.alive_max <= alive_max
            assert 1 <= read.alive_max <= alive_max
            assert 0 < connection._transport.get_write_buffer_size() <= Made.CHUNK_BYTES

    run(loop, scenario)


def test_a_pipeline_whose_responses_are_not_read_is_not_read_either(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            lazy = scene.raw(receive_buffer_bytes=4096)
            request = framed(b"e" + bytes(100_000))
            lazy.setblocking(False)
            running, unsent = asyncio.get_running_loop(), [200]

            async def push() -> None:
                while unsent[0]:
                    await running.sock_sendall(lazy, request)
                    unsent[0] -= 1

            pushing = asyncio.create_task(push())
            await until(lambda: scene.server.mute_counters.by_reason[MuteReason.OUTPUT_FULL] > 0)
            handled = len(scene.toy.handled)
            assert handled < 100
            got = 0
            while got < 200 * 100_004:
                got += len(await running.sock_recv(lazy, 1 << 20))
            await pushing
            assert len(scene.toy.handled) == 200

    run(loop, scenario)


def test_a_peer_that_closes_its_sending_side_still_gets_its_responses(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            client = await scene.client()
            client.send(b"e1", b"p")
            client.writer.write_eof()
            await until(lambda: len(scene.toy.parked) == 1)
            assert await client.receive() == b"1"
            scene.toy.parked[0].set_result(framed(b"2"))
            assert await client.receive() == b"2"
            assert await client.is_closed()

    run(loop, scenario)


def test_a_peer_that_goes_away_while_its_request_is_parked_is_forgotten(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            client = await scene.client()
            client.send(b"p")
            await until(lambda: len(scene.toy.parked) == 1)
            client.writer.transport.abort()
            scene.toy.parked[0].set_result(framed(b"too late"))
            await until(lambda: scene.server.connections_open == 0)

    run(loop, scenario)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (struct.pack(">i", -1), "a request of -1 bytes"),
        (struct.pack(">i", 0), "a request of 0 bytes"),
        (struct.pack(">i", 1001), "larger than socket.request.max.bytes (1000)"),
        (b"GET / HTTP/1.1\r\n\r\n", "larger than socket.request.max.bytes (1000)"),
        (framed(b"v"), "a request that breaks the protocol"),
    ],
)
def test_a_violation_is_one_line_at_info_after_the_responses_before_it(
    loop: str, sent: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="pybroker.network.connection")

    async def scenario() -> None:
        async with serving(limits=NetworkLimits(socket_request_max_bytes=1000)) as scene:
            client = await scene.client()
            client.writer.write(framed(b"ebefore") + sent)
            assert await client.receive() == b"before"
            assert await client.is_closed()
            assert scene.counters["protocol_violations"] == 1

    run(loop, scenario)
    (record,) = [record for record in caplog.records if record.name == "pybroker.network.connection"]
    assert record.levelno == logging.INFO
    assert reason in record.getMessage()
    assert record.exc_info is None


def test_a_bug_of_the_handler_ends_one_connection_and_shows_its_traceback(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            victim, other = await scene.client(), await scene.client()
            victim.send(b"?")
            assert await victim.is_closed()
            other.send(b"p")
            await until(lambda: len(scene.toy.parked) == 1)
            scene.toy.parked[0].set_exception(ValueError("a late bug"))
            assert await other.is_closed()

    run(loop, scenario)
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.exc_info is not None for record in errors] == [True, True]


def test_a_response_may_close_the_connection(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            client = await scene.client()
            client.send(b"e1", b"cbye", b"enever")
            assert [await client.receive(), await client.receive()] == [b"1", b"bye"]
            assert await client.is_closed()
            assert len(scene.toy.handled) == 2

    run(loop, scenario)


def test_a_server_has_several_listeners_with_ipv6_and_every_interface(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="pybroker.network.server")

    async def scenario() -> None:
        hosts = {"A": "localhost", "B": "::1", "C": "", "D": "::"}
        listeners = [Listener(name=name, host=host) for name, host in hosts.items()]
        seen: list[tuple[str, str]] = []

        def handler(context: ConnectionContext, frame: memoryview) -> bytes:
            seen.append((context.listener_name, context.peer_host))
            return framed(bytes(frame))

        server = SocketServer(listeners, handler, MemoryPool(-1, SystemClock()), NetworkLimits())
        bound = await server.start()
        ports = {one.name: one.port for one in bound}
        expected = [("A", "127.0.0.1"), ("B", "::1"), ("C", "127.0.0.1"), ("C", "::1"), ("D", "127.0.0.1"), ("D", "::1")]
        for name, host in expected:
            reader, writer = await asyncio.open_connection(host, ports[name])
            writer.write(framed(b"x"))
            assert await reader.readexactly(5) == framed(b"x")
            writer.close()
            await writer.wait_closed()
        assert seen == expected
        assert [(one.name, one.host) for one in bound] == [("A", "127.0.0.1"), ("B", "::1"), ("C", "::"), ("D", "::")]
        await server.stop(1000)
        lines = [record.getMessage() for record in caplog.records if record.name == "pybroker.network.server"]
        assert lines[1] == f"Listening at [::1]:{ports['B']} (B)"
        assert lines[3] == f"Listening at [::]:{ports['D']} (D)"

    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    run(loop, scenario)
