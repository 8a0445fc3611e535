"""Logins of a broker at another one: before the first request, again before the login ends, and those that fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pybroker.broker.peers import SESSION_PART, BrokerPeers
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import RequestHeader, encode_response
from pybroker.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from pybroker.protocol.messages.heartbeat import HeartbeatResponse
from pybroker.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from pybroker.protocol.messages.sasl_handshake import SaslHandshakeResponse
from pybroker.protocol.parts import parts_bytes
from pybroker.security.sasl.client_login import login_of_client
from pybroker.security.sasl.plain import MODULE
from tests.broker.test_peers import ID, LISTENER, Peer, Scene, all_of, until

VERSIONS = {ApiKey.HEARTBEAT: 3, ApiKey.SASL_HANDSHAKE: 1, ApiKey.SASL_AUTHENTICATE: 2}


class Guarded:
    """A broker that wants a login by PLAIN, in the requests that it gets."""

    def __init__(self) -> None:
        self.password, self.session_ms = "secret", 0
        self.versions = dict(VERSIONS)
        self.held: list[bytes] = []
        self.is_holding = False

    def respond(self, header: RequestHeader, request: Any) -> bytes | None:
        response: Any
        if header.api_key == ApiKey.API_VERSIONS:
            keys = [ApiVersion(api_key=key, min_version=0, max_version=highest) for key, highest in self.versions.items()]
            response = ApiVersionsResponse(error_code=0, api_keys=keys)
        elif header.api_key == ApiKey.SASL_HANDSHAKE:
            response = SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"])
        elif header.api_key == ApiKey.SASL_AUTHENTICATE:
            response = SaslAuthenticateResponse(error_code=0, session_lifetime_ms=self.session_ms)
            if request.auth_bytes != f"\0broker\0{self.password}".encode():
                response = SaslAuthenticateResponse(error_code=58, error_message="Invalid username or password")
        else:
            response = HeartbeatResponse(throttle_time_ms=request.generation_id, error_code=0)
        frame = parts_bytes(encode_response(response, header.api_version, header.correlation_id))
        if self.is_holding:
            self.held.append(frame)
            return b""
        return frame


@pytest.fixture
async def guarded() -> Guarded:
    return Guarded()


@pytest.fixture
async def scene(guarded: Guarded) -> AsyncIterator[Scene]:
    peer = Peer()
    peer.respond = guarded.respond
    await peer.start()
    made = Scene(peer)
    module = f'{MODULE} required username="broker" password="secret";'
    login = login_of_client({"sasl.mechanism": "PLAIN", "sasl.jaas.config": module})
    made.peers = BrokerPeers(lambda: made.brokers, LISTENER, "broker-1", login=login)
    yield made
    made.peers.close()
    await peer.stop()


def kinds(scene: Scene) -> list[ApiKey]:
    return [ApiKey(header.api_key) for _, header, _ in scene.peer.requests]


LOGIN = [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]


async def test_requests_wait_for_the_login(scene: Scene) -> None:
    assert await scene.results(1, 2) == [1, 2]
    assert await scene.results(3) == [3]
    assert kinds(scene) == [ApiKey.API_VERSIONS, *LOGIN, *3 * [ApiKey.HEARTBEAT]]
    assert scene.peer.connections == 1


def end_login(scene: Scene) -> None:
    """Let the time come at which the login is to be renewed."""
    scene.peers._lanes[ID, ""]._log_in_s = 0.0


async def test_a_login_is_renewed_before_its_end_and_requests_wait(
    scene: Scene, guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    guarded.session_ms = 100_000
    assert await scene.results(1) == [1]
    in_s = scene.peers._lanes[ID, ""]._log_in_s - asyncio.get_running_loop().time()
    assert 60 < in_s < 100 * SESSION_PART
    end_login(scene)
    guarded.is_holding = True
    waiting = [scene.send(2), scene.send(3)]
    await until(lambda: len(guarded.held) == 1)
    assert kinds(scene)[-1] == ApiKey.SASL_HANDSHAKE
    guarded.is_holding = False
    scene.peer.write(guarded.held.pop())
    assert await all_of(*waiting) == [2, 3]
    assert kinds(scene) == [ApiKey.API_VERSIONS, *LOGIN, ApiKey.HEARTBEAT, *LOGIN, ApiKey.HEARTBEAT, ApiKey.HEARTBEAT]
    assert scene.peer.connections == 1
    assert not caplog.records


async def test_a_login_is_renewed_after_the_responses_to_what_was_sent(scene: Scene, guarded: Guarded) -> None:
    assert await scene.results(1) == [1]
    guarded.is_holding = True
    sent = scene.send(2)
    await until(lambda: len(guarded.held) == 1)
    end_login(scene)
    waiting = scene.send(3)
    guarded.is_holding = False
    scene.peer.write(guarded.held.pop())
    assert await all_of(sent, waiting) == [2, 3]
    assert kinds(scene) == [ApiKey.API_VERSIONS, *LOGIN, ApiKey.HEARTBEAT, ApiKey.HEARTBEAT, *LOGIN, ApiKey.HEARTBEAT]


async def test_a_login_that_fails_is_one_line_and_tried_again(
    scene: Scene, guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    guarded.password = "other"
    with caplog.at_level(logging.INFO):
        for number in range(3):
            assert await scene.results(number) == [None]
        guarded.password = "secret"
        assert await scene.results(3) == [3]
    port = scene.peer.endpoint.port
    lost, found = (record.getMessage() for record in caplog.records)
    reason = "the login as 'broker' by PLAIN failed: Invalid username or password"
    assert lost == f"Broker 2 at 127.0.0.1:{port} cannot be reached now, which is tried again: {reason}"
    assert found == f"Broker 2 at 127.0.0.1:{port} can be reached again"


async def test_a_broker_without_logins_is_left(scene: Scene, guarded: Guarded) -> None:
    del guarded.versions[ApiKey.SASL_HANDSHAKE]
    assert await scene.results(1) == [None]
