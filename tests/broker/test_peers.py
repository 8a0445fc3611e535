"""Requests to other brokers: each gets its response or none, once, and brokers that fail are left alone for a while."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from pybroker.broker.peers import PAUSE_S, BrokerPeers
from pybroker.metadata.image import ImageDelta, empty_image
from pybroker.metadata.members import NO_MEMBERS, BrokerRegistration, Endpoint, Members
from pybroker.model import BrokerId
from pybroker.network.client import ClientConnection
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import RequestHeader, decode, decode_request_header, encode_response, request_class
from pybroker.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from pybroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pybroker.protocol.messages.metadata import MetadataRequest
from pybroker.protocol.parts import parts_bytes
from pybroker.sharing.turns.loop import new_event_loop
from pybroker.sharing.turns.watchdog import Watchdog

LISTENER = "INTERNAL"
ID = BrokerId(2)
HEARTBEATS_MAX = 3
Respond = Callable[[RequestHeader, Any], bytes | None]


def usual(header: RequestHeader, request: Any) -> bytes | None:
    """Respond with the number of the request; None ends the connection."""
    if header.api_key == ApiKey.API_VERSIONS:
        keys = [ApiVersion(api_key=ApiKey.HEARTBEAT, min_version=0, max_version=HEARTBEATS_MAX)]
        response: Any = ApiVersionsResponse(error_code=0, api_keys=keys)
    else:
        response = HeartbeatResponse(throttle_time_ms=request.generation_id, error_code=0)
    return parts_bytes(encode_response(response, header.api_version, header.correlation_id))


def but(of_heartbeats: Respond) -> Respond:
    """Respond as usual to ApiVersions."""
    return lambda header, request: (usual if header.api_key == ApiKey.API_VERSIONS else of_heartbeats)(header, request)


def silent(_header: RequestHeader, _request: Any) -> bytes | None:
    return b""


def closing(_header: RequestHeader, _request: Any) -> bytes | None:
    return None


class Peer:
    """Another broker, on a socket."""

    def __init__(self) -> None:
        self.respond: Respond = usual
        self.requests: list[tuple[int, RequestHeader, Any]] = []
        self.connections = self.ended = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self.endpoint = Endpoint("127.0.0.1", 0)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, *self.endpoint)
        self.endpoint = Endpoint("127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self._writers.append(writer)
        try:
            while True:
                frame = memoryview(await reader.readexactly(int.from_bytes(await reader.readexactly(4))))
                header, position = decode_request_header(frame)
                request = decode(request_class(header.api_key), header.api_version, frame, position)
                self.requests.append((number, header, request))
                response = self.respond(header, request)
                if response is None:
                    break
                writer.write(response)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.ended += 1
        writer.close()

    def write(self, response: bytes) -> None:
        """Send a response on the newest connection."""
        self._writers[-1].write(response)

    def heartbeats(self) -> list[tuple[int, int]]:
        """Return the connection and the number of each."""
        return [(one, request.generation_id) for one, header, request in self.requests if header.api_key == ApiKey.HEARTBEAT]


def members(brokers: dict[BrokerId, BrokerRegistration]) -> Members:
    return replace(NO_MEMBERS, registered=dict(brokers), live=dict(brokers))


class Scene:
    def __init__(self, peer: Peer, receive_buffer_bytes: int = -1) -> None:
        self.peer = peer
        self.brokers = {ID: BrokerRegistration(broker_id=ID, endpoints={LISTENER: peer.endpoint}, epoch=7)}
        self.peers = BrokerPeers(lambda: self.brokers, LISTENER, "broker-1", receive_buffer_bytes)
        self.calls: list[int] = []

    def send(self, number: int, *, lane: str = "", timeout_ms: int = 30_000, request: Any = None) -> asyncio.Future[Any]:
        """Send a heartbeat of this number. Returns what is done: the number of its response, or None."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def respond(response: Any | None) -> None:
            self.calls.append(number)
            done.set_result(None if response is None else response.throttle_time_ms)  # raises for a second call

        if request is None:
            request = HeartbeatRequest(group_id="g", generation_id=number, member_id="m")
        self.peers.send(ID, request, respond, lane=lane, timeout_ms=timeout_ms)
        assert number not in self.calls, "done is called later"
        return done

    async def results(self, *numbers: int, **how: Any) -> list[Any]:
        """Send heartbeats and wait for what is done."""
        return await all_of(*[self.send(number, **how) for number in numbers])


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    peer = Peer()
    await peer.start()
    made = Scene(peer)
    yield made
    made.peers.close()
    await peer.stop()


async def all_of(*done: asyncio.Future[Any]) -> list[Any]:
    return [await asyncio.wait_for(one, 20) for one in done]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  (the conditions read plain counters, which notify no task)
            await asyncio.sleep(0.001)


async def test_requests_before_and_after_the_connection_have_their_responses_in_order(scene: Scene) -> None:
    assert await scene.results(1, 2, 3) == [1, 2, 3]
    assert await scene.results(4) == [4]
    assert scene.calls == [1, 2, 3, 4]
    assert scene.peer.heartbeats() == [(1, 1), (1, 2), (1, 3), (1, 4)]
    headers = [header for _, header, _ in scene.peer.requests]
    assert [header.api_key for header in headers[:2]] == [ApiKey.API_VERSIONS, ApiKey.HEARTBEAT]
    assert headers[1].api_version == HEARTBEATS_MAX, "the highest version that both support"
    assert {header.client_id for header in headers} == {"broker-1"}


async def test_each_lane_has_a_connection_of_its_own(scene: Scene) -> None:
    scene.peer.respond = but(lambda header, request: b"" if request.generation_id == 1 else usual(header, request))
    waiting = scene.send(1)
    await until(lambda: bool(scene.peer.heartbeats()))
    assert await scene.results(2, lane="fetcher-0") == [2]
    assert not waiting.done()
    assert scene.peer.connections == 2


@pytest.mark.parametrize("endpoints", [None, {"OTHER": Endpoint("127.0.0.1", 1)}])
async def test_a_broker_without_an_address_gets_nothing(scene: Scene, endpoints: dict[str, Endpoint] | None) -> None:
    if endpoints is None:
        scene.brokers.clear()
    else:
        scene.brokers[ID] = replace(scene.brokers[ID], endpoints=endpoints)
    assert await scene.results(1) == [None]
    assert not scene.peer.connections


@pytest.mark.parametrize("host", ["127.0.0.1", "a..name"])
async def test_without_a_connection_there_is_no_response(scene: Scene, host: str) -> None:
    await scene.peer.stop()
    scene.brokers[ID] = replace(scene.brokers[ID], endpoints={LISTENER: Endpoint(host, scene.peer.endpoint.port)})
    assert await scene.results(1, 2) == [None, None]
    await scene.peer.start()


@pytest.mark.parametrize("host", ["nowhere.invalid", "a..name"])
async def test_a_host_without_an_address_is_one_line_with_what_to_do(
    scene: Scene, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene.brokers[ID] = replace(scene.brokers[ID], endpoints={LISTENER: Endpoint(host, 9092)})
    for number in range(3):
        assert await scene.results(number) == [None]
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert line.startswith(f"Broker 2 at {host}:9092 cannot be reached now, which is tried again: the host has no address here (")
    assert line.endswith(
        "advertises it for its listener INTERNAL: set advertised.listeners of broker 2 to an address that all brokers can resolve"
    )


async def test_after_a_failure_no_connection_is_opened_for_a_while(scene: Scene) -> None:
    scene.peer.respond = closing
    first = scene.send(0)
    await until(lambda: bool(scene.peer.requests))
    await asyncio.sleep(PAUSE_S[0] / 5)
    assert await scene.results(1, 2, 3) == [None, None, None]
    assert await first is None
    assert scene.peer.connections == 1
    loop = asyncio.get_running_loop()
    began, attempts = loop.time(), 0
    while loop.time() - began < sum(PAUSE_S[1:3]):
        await scene.results(attempts := attempts + 10)
    assert scene.peer.connections <= 4, "the pauses become longer"
    scene.peer.respond = usual
    async with asyncio.timeout(20):
        while await scene.results(attempts := attempts + 10) != [attempts]:
            pass


async def test_requests_on_a_broken_connection_get_no_response(scene: Scene) -> None:
    scene.peer.respond = but(lambda header, request: None if request.generation_id == 2 else usual(header, request))
    assert await scene.results(1, 2, 3) == [1, None, None]
    assert await scene.results(4) == [4]
    assert scene.peer.connections == 2


async def test_a_late_response_ends_the_connection(scene: Scene) -> None:
    scene.peer.respond = but(silent)
    assert await all_of(scene.send(1, timeout_ms=50), scene.send(2)) == [None, None]
    await until(lambda: scene.peer.ended == 1)
    scene.peer.respond = usual
    assert await scene.results(3) == [3]


async def test_a_request_is_late_while_it_waits_for_the_connection(scene: Scene) -> None:
    scene.peer.respond = silent
    async with asyncio.timeout(2):
        assert await scene.send(1, timeout_ms=50) is None


async def test_an_idle_connection_that_the_broker_ends_is_opened_again_without_a_pause(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    assert await scene.results(1) == [1]
    await scene.peer.stop()
    await scene.peer.start()
    await until(lambda: scene.peer.ended == 1)
    assert await scene.results(2) == [2]
    assert not caplog.records


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(lambda header: (6).to_bytes(4) + header.correlation_id.to_bytes(4) + b"ab", id="too short"),
        pytest.param(lambda header: usual(header._replace(correlation_id=99), HeartbeatRequest()), id="of another request"),
        pytest.param(lambda _: b"HTTP/1.1 400", id="wrong size"),
    ],
)
async def test_a_response_that_cannot_be_read_ends_the_connection(
    scene: Scene, response: Callable[[RequestHeader], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    scene.peer.respond = but(lambda header, _: response(header))
    with caplog.at_level(logging.INFO):
        for number in range(4):
            assert await scene.results(number) == [None]
    assert scene.peer.connections == 4
    assert len(caplog.records) == 1, "one line, although each connection is set up"


async def test_a_response_without_a_request_ends_the_connection(scene: Scene) -> None:
    scene.peer.respond = but(lambda header, request: 2 * (usual(header, request) or b""))
    assert await scene.results(1) == [1]
    await until(lambda: scene.peer.ended == 1)


async def test_an_error_of_api_versions_ends_the_connection(scene: Scene) -> None:
    def refuse(header: RequestHeader, _request: Any) -> bytes | None:
        return parts_bytes(encode_response(ApiVersionsResponse(error_code=35), header.api_version, header.correlation_id))

    scene.peer.respond = refuse
    assert await scene.results(1) == [None]


async def test_a_broker_that_has_registered_again_gets_a_new_connection(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.peer.respond = but(lambda header, request: b"" if request.generation_id == 1 else usual(header, request))
    lost = scene.send(1)
    await until(lambda: bool(scene.peer.heartbeats()))
    scene.brokers[ID] = replace(scene.brokers[ID], epoch=8)
    assert await scene.results(2) == [2]
    assert await lost is None
    other = Peer()
    await other.start()
    scene.brokers[ID] = replace(scene.brokers[ID], endpoints={LISTENER: other.endpoint})
    assert await scene.results(3) == [3]
    assert (scene.peer.connections, other.connections) == (2, 1)
    assert not caplog.records
    await other.stop()


@pytest.mark.parametrize("epoch", [None, 8])
async def test_the_connections_to_a_broker_end_with_its_life(scene: Scene, epoch: int | None) -> None:
    scene.peer.respond = but(silent)
    sent = scene.send(1)
    await until(lambda: bool(scene.peer.heartbeats()))
    old = empty_image(BrokerId(1)).changed(revision=1, members=members(scene.brokers))[0]
    same, other = old.changed(revision=2, cluster_id="c")
    scene.peers.follow(old, same, other)
    if epoch is None:
        scene.brokers.clear()
    else:
        scene.brokers[ID] = replace(scene.brokers[ID], epoch=epoch)
    new, delta = old.changed(revision=3, members=members(scene.brokers))
    assert not sent.done()
    scene.peers.follow(old, new, delta)
    assert await all_of(sent) == [None]
    await until(lambda: scene.peer.ended == 1)


@pytest.mark.parametrize("with_uvloop", [True, False])
def test_the_receive_buffer_has_the_size_that_is_set(with_uvloop: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    async def run() -> None:
        peer = Peer()
        await peer.start()
        scene = Scene(peer, receive_buffer_bytes=50_000)
        made = ClientConnection.connection_made

        def note(connection: ClientConnection, transport: asyncio.BaseTransport) -> None:
            sockets.append(transport.get_extra_info("socket"))
            made(connection, transport)

        sockets: list[Any] = []
        monkeypatch.setattr(ClientConnection, "connection_made", note)
        assert await scene.results(1) == [1]
        sizes.append(sockets[0].getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
        scene.peers.close()
        await peer.stop()

    loop = new_event_loop(Watchdog(1 << 62), with_uvloop=with_uvloop)
    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
    assert sizes in ([50_000], [100_000]), "Linux doubles it"


async def test_a_new_registration_ends_the_pause(scene: Scene) -> None:
    scene.peer.respond = closing
    for number in range(3):
        assert await scene.results(number) == [None]
    lost = scene.send(3)
    await until(lambda: len(scene.peer.requests) == 4)
    await asyncio.sleep(PAUSE_S[0] / 5)
    scene.peer.respond = usual
    scene.brokers[ID] = replace(scene.brokers[ID], epoch=8)
    assert await scene.results(4) == [4]
    assert not lost.done()


async def test_close_ends_what_waits_and_what_comes_later(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.peer.respond = but(silent)
    sent = scene.send(1)
    await until(lambda: bool(scene.peer.heartbeats()))
    opening = scene.send(2, lane="other")
    scene.peers.close()
    assert await all_of(sent, opening) == [None, None]
    assert await scene.results(3) == [None]
    assert scene.peer.connections <= 2
    assert not caplog.records


async def test_a_broker_that_cannot_be_reached_has_a_line_in_the_log_and_one_when_it_can(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.peer.stop()
    with caplog.at_level(logging.INFO):
        for number in range(3):
            assert await scene.results(number) == [None]
        await scene.peer.start()
        assert await scene.results(3) == [3]
        assert await scene.results(4) == [4]
    port = scene.peer.endpoint.port
    lost, found = (record.getMessage() for record in caplog.records)
    assert lost.startswith(f"Broker 2 at 127.0.0.1:{port} cannot be reached now, which is tried again: ")
    assert found == f"Broker 2 at 127.0.0.1:{port} can be reached again"


async def test_a_request_that_the_broker_does_not_support_gets_no_response(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    first = scene.send(1, request=MetadataRequest())
    second = scene.send(2, request=MetadataRequest())
    assert await scene.results(3) == [3]
    assert await all_of(first, second) == [None, None]
    assert [record.getMessage() for record in caplog.records] == [
        "Broker 2 supports no version of METADATA that this one supports"
    ]


async def test_a_request_that_cannot_be_encoded_gets_no_response_and_harms_no_other(scene: Scene) -> None:
    wrong = scene.send(1 << 40)
    assert await scene.results(2) == [2]
    later = scene.send(1 << 41)
    assert await scene.results(3) == [3]
    assert await all_of(wrong, later) == [None, None]
    assert scene.peer.connections == 1


async def test_the_end_of_a_life_ends_its_connections(scene: Scene) -> None:
    scene.peer.respond = but(silent)
    waiting = scene.send(1, timeout_ms=600_000)
    await until(lambda: bool(scene.peer.heartbeats()))
    scene.brokers.clear()
    image = empty_image(BrokerId(1))
    scene.peers.follow(image, image, ImageDelta(brokers_changed=True))
    assert await all_of(waiting) == [None], "no packet comes from a machine without power"
    scene.peer.respond = usual
    scene.brokers[ID] = BrokerRegistration(broker_id=ID, endpoints={LISTENER: scene.peer.endpoint}, epoch=8)
    assert await scene.results(2) == [2]
