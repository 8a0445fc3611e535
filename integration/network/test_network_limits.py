"""Bounded memory, limits on connections, idle connections and stops, over real sockets on both event loops."""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
import random
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pybroker.clock import SystemClock
from pybroker.network import acceptor, server, strangers
from pybroker.network.binding import bind_all
from pybroker.network.limits import OS_DEFAULT, BoundListener, Listener, ListenerLimits, NetworkLimits
from pybroker.network.memory_pool import MemoryPool
from pybroker.network.mute import MuteReason
from pybroker.network.server import SocketServer
from testing.scenes.network_toy import LOOPS, Client, Toy, framed, run, serving, until
from testing.waiting import WAIT_S

pytestmark = pytest.mark.parametrize("loop", LOOPS)

SMALL = NetworkLimits(socket_request_max_bytes=10_000)
LARGER_THAN_RESERVE = b"e" + bytes(1000)


def test_many_trickling_connections_share_a_small_pool_and_all_get_responses(loop: str) -> None:
    pool_bytes = 30_000

    async def scenario() -> None:
        async with serving(limits=SMALL, pool_bytes=pool_bytes) as scene:

            async def talk(client: Client, number: int) -> None:
                rng = random.Random(number)
                for _ in range(3):
                    body = rng.randbytes(rng.randint(1, 9_999))
                    stream = framed(b"e" + body)
                    while stream:
                        count = rng.choice((1, 3, 500, 2000, 5000))
                        client.writer.write(stream[:count])
                        await client.writer.drain()
                        stream = stream[count:]
                        await asyncio.sleep(0)
                    assert await client.receive() == body

            clients = [await scene.client() for _ in range(200)]
            await asyncio.gather(*(talk(client, number) for number, client in enumerate(clients)))
            assert pool_bytes < scene.pool.peak <= pool_bytes + SMALL.socket_request_max_bytes - 1
            assert scene.server.mute_counters.by_reason[MuteReason.MEMORY] > 0
            assert len(scene.toy.handled) == 600

    run(loop, scenario)


def test_idle_connections_stay_open_without_memory_and_use_it_once_it_is_back(loop: str) -> None:
    async def scenario() -> None:
        async with serving(limits=SMALL, pool_bytes=10_001) as scene:
            holders = [await scene.client() for _ in range(2)]
            for holder in holders:
                holder.writer.write(framed(b"e" + bytes(9000))[:2000])
            await until(lambda: scene.pool.used == 18_002)
            assert scene.pool.available == 10_001 - 18_002
            idle = [await scene.client() for _ in range(50)]
            waiting = await scene.client()
            waiting.send(LARGER_THAN_RESERVE)
            await until(lambda: scene.server.admission.waiting == 1)
            assert scene.server.mute_counters.transitions == 1
            # A connection that holds memory for a half-read request is not muted, so that it can finish.
            holders[0].writer.write(framed(b"e" + bytes(9000))[2000:])
            assert await holders[0].receive() == bytes(9000)
            assert await waiting.receive() == LARGER_THAN_RESERVE[1:]
            assert scene.server.mute_counters.transitions == 1
            assert scene.pool.depleted_ms_total >= 0
            idle[0].send(b"eidle")
            assert await idle[0].receive() == b"idle"
            holders[1].writer.transport.abort()
            await until(lambda: scene.pool.used == 0)

    run(loop, scenario)


def test_a_disconnect_in_mid_request_gives_its_memory_to_a_connection_that_waits(loop: str) -> None:
    async def scenario() -> None:
        async with serving(limits=SMALL, pool_bytes=10_001) as scene:
            holder, more = await scene.client(), await scene.client()
            for client in (holder, more):
                client.writer.write(framed(b"e" + bytes(9000))[:2000])
            await until(lambda: scene.pool.used == 18_002)
            waiting, gone = await scene.client(), await scene.client()
            for client in (waiting, gone):
                client.send(b"e" + bytes(5000))
            await until(lambda: scene.server.admission.waiting == 2)
            gone.writer.transport.abort()
            holder.writer.transport.abort()
            assert await waiting.receive() == bytes(5000)
            more.writer.transport.abort()

    run(loop, scenario)


def test_idle_connections_are_closed_even_with_a_parked_request_unless_they_wait_for_memory(loop: str) -> None:
    async def scenario() -> None:
        limits = NetworkLimits(connections_max_idle_ms=1000, socket_request_max_bytes=10_000)
        async with serving(limits=limits, pool_bytes=10_001) as scene:
            parked, idle = await scene.client(), await scene.client()
            parked.send(b"p", b"enever")
            idle.send(b"e1")
            assert await idle.receive() == b"1"
            holders, waiting = [await scene.client() for _ in range(2)], await scene.client()
            request = framed(b"e" + bytes(9000))
            for holder in holders:
                holder.writer.write(request[:2000])
            await until(lambda: scene.pool.used == 18_002)
            waiting.send(LARGER_THAN_RESERVE)
            await until(lambda: scene.server.admission.waiting == 1)
            for byte in request[2000:2010]:  # in all longer than the limit
                for holder in holders:
                    holder.writer.write(bytes([byte]))
                await asyncio.sleep(0.15)
            assert await idle.is_closed()
            assert await parked.is_closed()
            assert scene.counters["connections_expired"] == 2
            for holder in holders:
                holder.writer.write(request[2010:])
                assert await holder.receive() == bytes(9000)
            assert await waiting.receive() == LARGER_THAN_RESERVE[1:]
            scene.toy.parked[0].set_result(framed(b"too late"))

    run(loop, scenario)


LARGE = NetworkLimits(socket_request_max_bytes=200_000)


@pytest.mark.parametrize("pool_bytes", [200_001, 10_000_000, -1])
def test_memory_behind_a_parked_request_is_given_back_when_the_peer_closes(loop: str, pool_bytes: int) -> None:
    async def scenario() -> None:
        async with serving(limits=LARGE, pool_bytes=pool_bytes) as scene:
            other = await scene.client()
            for number in range(1, 4):
                leaver = scene.raw()
                leaver.sendall(framed(b"p") + framed(b"e" + bytes(180_000))[:150_000])
                await until(lambda number=number: len(scene.toy.parked) == number)  # type: ignore[misc]  # bound at once
                leaver.close()
            await until(lambda: scene.pool.used == 0)
            other.send(b"e" + bytes(150_000))
            assert await other.receive() == bytes(150_000)
            for future in scene.toy.parked:
                future.set_result(framed(b"late"))
            await until(lambda: scene.server.connections_open == 1)

    run(loop, scenario)


def test_a_half_closed_peer_gets_the_response_to_its_parked_request_and_no_other(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            client = await scene.client()
            client.send(b"e1", b"p", b"enever", b"e" + bytes(150_000))
            await until(lambda: scene.pool.used > 100_000)
            client.writer.write_eof()
            await until(lambda: scene.pool.used == 0)
            scene.toy.parked[0].set_result(framed(b"2"))
            assert [await client.receive(), await client.receive()] == [b"1", b"2"]
            assert await client.is_closed()
            assert len(scene.toy.handled) == 2

    run(loop, scenario)


def test_a_peer_that_resets_behind_a_parked_request_is_forgotten_at_once(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            for count, sent in enumerate((framed(b"p"), framed(b"p") + framed(b"e" + bytes(150_000))), start=1):
                leaver = scene.raw()
                leaver.sendall(sent)
                await until(lambda count=count: len(scene.toy.parked) == count)  # type: ignore[misc]  # bound at once
                await until(lambda: scene.pool.used > 0 or count == 1)  # noqa: B023  (as above)
                leaver.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                leaver.close()
                await until(lambda: scene.server.connections_open == 0)
                assert scene.pool.used == 0
                scene.toy.parked[-1].set_result(framed(b"too late"))

    run(loop, scenario)


def test_bytes_behind_parked_requests_keep_no_client_out_of_a_small_pool(loop: str) -> None:
    async def scenario() -> None:
        limits = NetworkLimits(socket_request_max_bytes=131_072)
        async with serving(limits=limits, pool_bytes=131_073) as scene:
            hoarders = [await scene.client() for _ in range(3)]
            small = [b"e" + bytes(19)] * 5500
            for hoarder in hoarders:
                hoarder.send(b"p", *small)
            await until(lambda: len(scene.toy.parked) == 3)
            other = await scene.client()
            other.send(b"e" + bytes(100_000))
            assert await other.receive() == bytes(100_000)
            assert (scene.pool.used, scene.server.admission.waiting) == (0, 0)
            for future in scene.toy.parked:
                future.set_result(framed(b"p"))
            for hoarder in hoarders:
                assert await hoarder.receive() == b"p"
                for _ in small:
                    assert await hoarder.receive() == bytes(19)

    run(loop, scenario)


def test_a_connection_that_trickles_is_not_idle_but_one_that_does_not_read_is(loop: str) -> None:
    async def scenario() -> None:
        async with serving(limits=NetworkLimits(connections_max_idle_ms=1500)) as scene:
            lazy, slow = scene.raw(receive_buffer_bytes=4096), await scene.client()
            lazy.sendall(framed(b"b100000000"))
            for byte in framed(b"eslow"):
                slow.writer.write(bytes([byte]))
                await asyncio.sleep(0.2)  # in all longer than the limit
            assert await slow.receive() == b"slow"
            await until(lambda: scene.counters["connections_expired"] >= 1)
            assert (scene.toy.parts[0].closed, scene.toy.sent) == (1, 1)

    run(loop, scenario)


def test_connections_beyond_the_limit_of_an_address_are_closed_with_one_line(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="pybroker.network.server")
    limits = NetworkLimits(max_connections_per_ip=2, max_connections_per_ip_overrides={"127.0.0.3": 1})

    async def scenario() -> None:
        async with serving(limits=limits) as scene:

            async def is_admitted(host: str) -> bool:
                client = await scene.client(local_host=host)
                client.send(b"e")
                try:
                    return await client.receive() == b""
                except (asyncio.IncompleteReadError, ConnectionError):
                    return False

            hosts = ["127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.3", "127.0.0.3", "127.0.0.4", "127.0.0.5"]
            assert [await is_admitted(host) for host in hosts] == [True, True, False, True, False, True, True]
            assert scene.counters["connections_refused"] == 2
            await scene.clients[0].close()
            await until(lambda: scene.server.connections_open == 4)
            assert await is_admitted("127.0.0.1")

    run(loop, scenario)
    refusals = [record.getMessage() for record in caplog.records if "Refusing" in record.getMessage()]
    assert [line.rpartition(": ")[2] for line in refusals] == [
        "max.connections.per.ip (2) reached",
        "max.connections.per.ip (1) reached",
    ]


def test_a_stop_lets_requests_under_way_get_their_responses(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            idle, parked, large = [await scene.client() for _ in range(3)]
            parked.send(b"p", b"enot taken any more")
            large.send(b"b20000000")
            await until(lambda: len(scene.toy.parked) == 1 and len(scene.toy.parts) == 1)
            stopping = asyncio.create_task(scene.server.stop(20_000))
            assert await idle.is_closed()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(scene.bound.host, scene.bound.port)
            assert await large.receive() == bytes(20_000_000)
            assert await large.is_closed()
            assert not stopping.done()
            scene.toy.parked[0].set_result(framed(b"response"))
            assert await parked.receive() == b"response"
            assert await parked.is_closed()
            await stopping

    run(loop, scenario)


def test_a_stop_takes_no_longer_than_its_grace(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            parked, lazy = await scene.client(), scene.raw(receive_buffer_bytes=4096)
            parked.send(b"p")
            lazy.sendall(framed(b"b100000000"))
            await until(lambda: len(scene.toy.handled) == 2)
            async with asyncio.timeout(60):  # neither of them ends by itself
                await scene.server.stop(100)
            assert await parked.is_closed()
            scene.toy.parked[0].set_result(framed(b"too late"))

    run(loop, scenario)


def test_an_address_that_is_taken_is_named_and_nothing_stays_bound(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            listeners = [
                Listener(name="FREE", host="127.0.0.1"),
                Listener(name="TAKEN", host="127.0.0.1", port=scene.bound.port),
            ]
            server = SocketServer(listeners, scene.toy, MemoryPool(-1, scene.pool.clock), NetworkLimits())
            with pytest.raises(OSError, match=rf"listeners=TAKEN://127.0.0.1:{scene.bound.port}: cannot listen there"):
                await server.start()
            await server.stop(0)

    run(loop, scenario)


def test_a_listener_that_is_bound_refuses_clients_and_keeps_its_port_until_the_server_starts(loop: str) -> None:
    async def scenario() -> None:
        buffers = {"send_buffer_bytes": OS_DEFAULT, "receive_buffer_bytes": OS_DEFAULT}
        sockets = await bind_all([Listener(host="127.0.0.1")], **buffers)
        host, port = sockets[0].getsockname()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, port)
        listener = Listener(host=host, port=port)
        later = await bind_all([listener], **buffers)  # of a process that starts at the same time: the system allows it

        toy = Toy()
        servers = [SocketServer([listener], toy, MemoryPool(-1, SystemClock()), NetworkLimits()) for _ in range(2)]
        assert await servers[0].start(sockets) == [BoundListener(name="PLAINTEXT", host=host, port=port)]
        with pytest.raises(
            OSError, match=rf"listeners=PLAINTEXT://127\.0\.0\.1:{port}: cannot listen there: Address already in use"
        ):
            await servers[1].start(later)
        with pytest.raises(OSError, match=r"Address already in use"):
            await bind_all([listener], **buffers)
        _, writer = await asyncio.open_connection(host, port)
        writer.close()
        for one in servers:
            await one.stop(100)

    run(loop, scenario)


def test_at_max_connections_clients_wait_for_a_free_slot_and_others_are_served(loop: str) -> None:
    async def scenario() -> None:
        async with serving(limits=NetworkLimits(max_connections=3)) as scene:
            first, second, third = [await scene.client() for _ in range(3)]
            for client in (first, second, third):
                client.send(b"e")
                assert await client.receive() == b""
            scene.toy.handled.clear()
            waiting = [await scene.client() for _ in range(10)]
            for client in waiting:
                client.send(b"elate")
            for turn in range(20):
                first.send(b"e%d" % turn)
                assert await first.receive() == b"%d" % turn
            assert scene.server.connections_open == 3
            assert len(scene.toy.handled) == 20
            await second.close()
            await until(lambda: len(scene.toy.handled) == 21)
            assert scene.server.connections_open == 3
            scene.server.limits = NetworkLimits(max_connections=6)
            await until(lambda: len(scene.toy.handled) == 24)
            assert scene.server.connections_open == 6
            scene.server.limits = NetworkLimits(max_connections=2)
            third.send(b"estill")
            assert await third.receive() == b"still", "connections above a lowered limit stay"
            scene.server.limits = NetworkLimits()
            for client in waiting:
                assert await client.receive() == b"late"
            assert scene.counters["connections_refused"] == 0

    run(loop, scenario)


@pytest.mark.parametrize(
    "limits",
    [NetworkLimits(max_connections=30), NetworkLimits(of_listeners={"PLAINTEXT": ListenerLimits(max_connections=30)})],
    ids=["of the broker", "of the listener"],
)
def test_strangers_make_room_for_clients_that_wait_and_a_client_keeps_its_connection(
    loop: str, monkeypatch: pytest.MonkeyPatch, limits: NetworkLimits
) -> None:
    monkeypatch.setattr(strangers, "GRACE_MS", 50)
    monkeypatch.setattr(strangers, "PRESSED_MS", 100)
    monkeypatch.setattr(server, "LOOK_MS", 20)

    async def scenario() -> None:
        async with serving(limits=limits) as scene:
            first = await scene.client()
            first.send(b"eone")
            assert await first.receive() == b"one"
            sent = (b"", framed(b"e" + bytes(1000))[:100], framed(b"e") + framed(b"two")[:5], framed(b"b100000000"))
            others = []
            for number in range(200):
                others.append(scene.raw(receive_buffer_bytes=4096))
                others[-1].sendall(sent[number % len(sent)])
            late = await scene.client()
            late.send(b"elate")
            assert await late.receive() == b"late"
            first.send(b"estill")
            assert await first.receive() == b"still"
            assert scene.server.strangers.closed > 100

    run(loop, scenario)


def test_a_request_that_trickles_is_closed(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LOOK_MS", 20)
    limits = NetworkLimits(first_request_timeout_ms=300, request_progress_timeout_ms=300)

    async def scenario() -> None:
        async with serving(limits=limits) as scene:
            idle, trickles, silent = [await scene.client() for _ in range(3)]
            for client in (idle, trickles):
                client.send(b"e1")
                assert await client.receive() == b"1"
            trickles.writer.write(framed(b"e" + bytes(200_000))[:10_000])
            closed = asyncio.gather(trickles.is_closed(), silent.is_closed())
            while not closed.done():
                trickles.writer.write(b"x")
                await asyncio.sleep(0.02)
            assert all(await closed)
            idle.send(b"e2")
            assert await idle.receive() == b"2"

    run(loop, scenario)


def test_a_loop_with_clients_waiting_for_a_slot_is_idle(loop: str) -> None:
    async def scenario() -> None:
        async with serving(limits=NetworkLimits(max_connections=1)) as scene:
            only = await scene.client()
            only.send(b"e")
            assert await only.receive() == b""
            waiting = [await scene.client() for _ in range(5)]
            turns = 0

            def count() -> None:
                nonlocal turns
                turns += 1

            original = scene.server._acceptors[0]._room
            scene.server._acceptors[0]._room = lambda: (count(), original())[1]
            await asyncio.sleep(0.1)
            assert turns == 0, "the loop does not ask again and again whether there is room"
            await only.close()
            waiting[0].send(b"ein")
            assert await waiting[0].receive() == b"in"

    run(loop, scenario)


@asynccontextmanager
async def two_listeners(limits: NetworkLimits) -> AsyncIterator[tuple[SocketServer, Callable[[BoundListener, int], None]]]:
    """Run a server with a listener for clients and a protected one for brokers.

    Yields the server with a function that connects peers to a listener.
    """
    listeners = [Listener(name="CLIENTS", host="127.0.0.1"), Listener(name="BROKERS", host="127.0.0.1", is_protected=True)]
    server = SocketServer(listeners, Toy(), MemoryPool(-1, SystemClock()), limits)
    sockets: list[socket.socket] = []

    def connect(bound: BoundListener, count: int) -> None:
        sockets.extend(socket.create_connection((bound.host, bound.port), WAIT_S) for _ in range(count))

    try:
        yield server, connect
    finally:
        for one in sockets:
            one.close()
        await server.stop(100)


def test_a_failure_while_the_server_does_not_read_is_an_ordinary_failure(loop: str) -> None:
    async def scenario() -> None:
        async with serving() as scene:
            client = await scene.client()
            client.send(b"p", *[b"e" + bytes(100_000)] * 100)
            await until(lambda: len(scene.toy.parked) == 1)
            assert client.writer.transport.get_write_buffer_size() > 0
            raise LookupError

    with pytest.raises(LookupError):
        run(loop, scenario)


def test_the_limit_of_descriptors_holds_and_clients_do_not_shut_out_the_brokers_listener(loop: str) -> None:
    async def scenario() -> None:
        async with two_listeners(NetworkLimits(max_connections=2, descriptors_max=4)) as (server, connect):
            clients, brokers = await server.start()
            connect(clients, 3)
            await until(lambda: server.connections_open == 2)
            connect(brokers, 3)
            await until(lambda: server.connections_open == 4)
            await asyncio.sleep(0.02)
            assert server.connections_open == 4
        assert server.connections_open == 0

    run(loop, scenario)


def test_a_connection_that_is_set_up_late_at_one_listener_keeps_no_client_waiting_at_the_other(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        step, late = acceptor.Acceptor._step, []

        def step_late(self: acceptor.Acceptor, *arguments: Any) -> None:
            if self.name == "CLIENTS" and len(arguments) > 2:  # the last step
                late.append(functools.partial(step, self, *arguments))
            else:
                step(self, *arguments)

        monkeypatch.setattr(acceptor.Acceptor, "_step", step_late)
        async with two_listeners(NetworkLimits(max_connections=1, descriptors_max=3)) as (server, connect):
            clients, brokers = await server.start()
            try:
                connect(clients, 1)
                await until(lambda: server.connections_open == 1)
                connect(brokers, 2)
                await until(lambda: server.connections_open == 2)
                assert server.connections_open == 2, "the client's connection counts twice until it is set up"
            finally:
                for last_step in late:  # also after a failure, as the server's stop waits for the connection
                    last_step()
            await until(lambda: server.connections_open == 3)

    run(loop, scenario)


def test_a_listener_without_a_descriptor_for_a_connection_tries_again_and_logs_that_once(
    loop: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acceptor, "RETRY_S", 0.01)
    failures = 0

    class Scarce(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            nonlocal failures
            if failures < 5:
                failures += 1
                raise OSError(errno.EMFILE, "none")
            return super().accept()

    async def scenario() -> None:
        async with serving() as scene:
            listening = scene.server._acceptors[0]._listening
            scene.server._acceptors[0]._listening = Scarce(fileno=listening.detach())
            client = await scene.client()
            client.send(b"ehello")
            assert await client.receive() == b"hello"
            assert scene.server.accept_shortages == 5

    with caplog.at_level(logging.WARNING):
        run(loop, scenario)
    assert [record.getMessage() for record in caplog.records if "descriptor" in record.getMessage()] == [
        "No file descriptor is left for connections at PLAINTEXT; waiting clients are accepted when there is one: [Errno 24] none"
    ]
