"""Messages over a pair of sockets: the versions of requests, and whether each response belongs to its request."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pybroker.client.connection import Connection
from pybroker.client.errors import ProtocolError
from pybroker.client.frames import Frames
from pybroker.client.security import security_of
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import decode_request_header, encode_response, message_versions
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from pybroker.protocol.messages.sasl_handshake import SaslHandshakeResponse
from pybroker.tools import connection as tools
from pybroker.tools.errors import CommandError


class Peer:
    """The other side of a connection, which sends its responses before the requests come."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected

    def respond(self, message: Any, version: int, correlation_id: int) -> None:
        self.socket.sendall(b"".join(bytes(part) for part in encode_response(message, version, correlation_id)))  # type: ignore[arg-type]

    def serve(self, *apis: tuple[int, int, int], error: int = 0, version: int = 0) -> None:
        keys = [ApiVersion(api_key=key, min_version=lowest, max_version=highest) for key, lowest, highest in apis]
        self.respond(ApiVersionsResponse(error_code=error, api_keys=keys), version, 1)

    def requested(self) -> tuple[int, int, int, str | None]:
        """Return key, version, correlation id and client of the next request."""
        size = int.from_bytes(self.socket.recv(4))
        header, _ = decode_request_header(memoryview(self.socket.recv(size)))
        return header.api_key, header.api_version, header.correlation_id, header.client_id


@pytest.fixture
def peer() -> Iterator[tuple[Connection, Peer]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(1)
        theirs.settimeout(1)
        yield Connection(Frames(ours, address="kafka:9092", client_id="me")), Peer(theirs)


@pytest.mark.parametrize("version", [0, 3])
def test_a_request_goes_in_the_highest_version_of_both(peer: tuple[Connection, Peer], version: int) -> None:
    connection, broker = peer
    broker.serve((ApiKey.METADATA, 0, 5), (ApiKey.FETCH, 4, 100), version=version)
    assert connection.ask_versions(version) == 0
    assert broker.requested() == (ApiKey.API_VERSIONS, version, 1, "me")
    assert connection.versions == {ApiKey.METADATA: (0, 5), ApiKey.FETCH: (4, 100)}
    assert connection.version_of(ApiKey.FETCH) == message_versions(ApiKey.FETCH)[1]
    broker.respond(MetadataResponse(cluster_id="c", controller_id=1), 5, 2)
    assert connection.call(MetadataRequest(topics=[])).cluster_id == "c"
    assert broker.requested() == (ApiKey.METADATA, 5, 2, "me")


def test_a_version_can_be_given(peer: tuple[Connection, Peer]) -> None:
    connection, broker = peer
    broker.respond(MetadataResponse(cluster_id="c", controller_id=1), 2, 1)
    assert connection.call(MetadataRequest(topics=[]), 2).cluster_id == "c"
    assert broker.requested() == (ApiKey.METADATA, 2, 1, "me")


@pytest.mark.parametrize("apis", [[], [(ApiKey.METADATA, 99, 100)], [(ApiKey.METADATA, -2, -1)]])
def test_an_api_without_a_common_version_is_an_error(peer: tuple[Connection, Peer], apis: list[tuple[int, int, int]]) -> None:
    connection, broker = peer
    broker.serve(*apis)
    connection.ask_versions(0)
    with pytest.raises(ProtocolError, match=r"^the broker supports no version of METADATA that this client supports$") as raised:
        connection.send(MetadataRequest(topics=[]))
    assert raised.value.text == "the broker at kafka:9092 supports no version of METADATA that this client supports"


def test_a_broker_that_does_not_know_the_version_of_api_versions_responds_with_an_error(peer: tuple[Connection, Peer]) -> None:
    connection, broker = peer
    broker.serve((ApiKey.API_VERSIONS, 0, 2), error=ErrorCode.UNSUPPORTED_VERSION, version=0)
    assert connection.ask_versions(3) == ErrorCode.UNSUPPORTED_VERSION


def test_several_requests_may_be_in_flight(peer: tuple[Connection, Peer]) -> None:
    connection, broker = peer
    for number in (1, 2, 3):
        connection.send(MetadataRequest(topics=[]), 2)
        broker.respond(MetadataResponse(cluster_id=str(number), controller_id=1), 2, number)
    assert [connection.receive().cluster_id for _ in range(3)] == ["1", "2", "3"]


def test_a_response_to_another_request_is_refused(peer: tuple[Connection, Peer]) -> None:
    connection, broker = peer
    broker.respond(MetadataResponse(controller_id=1), 2, 7)
    with pytest.raises(ProtocolError, match=r"^the broker responded to request 7, but the client waits for request 1$") as raised:
        connection.call(MetadataRequest(topics=[]), 2)
    assert raised.value.text.startswith("the broker at kafka:9092 responded to request 7,")


def test_a_response_that_is_damaged_is_refused(peer: tuple[Connection, Peer]) -> None:
    connection, broker = peer
    broker.socket.sendall(b"\0\0\0\6\0\0\0\1no")
    with pytest.raises(ProtocolError, match=r"^the response cannot be read: ") as raised:
        connection.call(MetadataRequest(topics=[]), 2)
    assert raised.value.text.startswith("the server at kafka:9092 does not speak Kafka's protocol: ")


def test_a_command_asks_for_versions_once_before_its_login(
    peer: tuple[Connection, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, broker = peer  # Apache Kafka closes a connection that asks twice
    monkeypatch.setattr(socket, "create_connection", lambda *_: connection.frames._socket)
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    broker.serve((ApiKey.SASL_HANDSHAKE, 0, 1), (ApiKey.SASL_AUTHENTICATE, 0, 2))
    refusal = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["SCRAM-SHA-256"])
    broker.respond(refusal, 1, 2)
    with pytest.raises(CommandError, match="without PLAIN"):
        tools.connect([("kafka", 9092)], security=security_of(login))
    assert [broker.requested()[0] for _ in range(2)] == [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE]
