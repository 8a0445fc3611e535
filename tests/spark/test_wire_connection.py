"""The errors of a job's connection: PipelineErrors that name the broker."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import encode_response
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from pybroker.protocol.messages.metadata import MetadataRequest
from pybroker.spark.errors import PipelineError
from pybroker.spark.wire.connection import Connection
from pybroker.spark.wire.errors import BrokerError, ConnectionLostError, NotKafkaError
from testing.waiting import joined

Server = Callable[[bytes], int]


@pytest.fixture
def server() -> Iterator[Server]:
    """Start servers that send these bytes to one connection and close it; return their ports."""
    threads = []

    def start(response: bytes) -> int:
        listening = socket.create_server(("127.0.0.1", 0))

        def serve() -> None:
            with listening, listening.accept()[0] as peer:
                peer.recv(1000)
                peer.sendall(response)

        threads.append(threading.Thread(target=serve, daemon=True))
        threads[-1].start()
        return int(listening.getsockname()[1])

    yield start
    for thread in threads:
        joined(thread, "the server's end")


@pytest.mark.parametrize(
    ("response", "cls", "text"),
    [
        (b"", ConnectionLostError, "the broker at {} closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", NotKafkaError, "the server at {} does not speak Kafka's protocol"),
        (
            struct.pack(">iihi", 10, 1, ErrorCode.UNSUPPORTED_VERSION, 0),
            BrokerError,
            f"the broker at {{}} does not report its API versions: UNSUPPORTED_VERSION: {ErrorCode.UNSUPPORTED_VERSION.message}",
        ),
    ],
)
def test_a_server_that_is_no_broker_is_a_line(server: Server, response: bytes, cls: type[PipelineError], text: str) -> None:
    port = server(response)
    with pytest.raises(cls) as raised:
        Connection("127.0.0.1", port)
    assert str(raised.value) == text.format(f"127.0.0.1:{port}")


def test_a_closed_connection_and_an_api_that_is_not_served_are_lines(server: Server) -> None:
    served = ApiVersionsResponse(api_keys=[ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=9)])
    port = server(b"".join(map(bytes, encode_response(served, 3, 1))))  # type: ignore[arg-type]  # no late parts
    connection = Connection("127.0.0.1", port)
    with pytest.raises(NotKafkaError, match=f"^the broker at 127.0.0.1:{port} supports no version of FETCH that this client"):
        connection.version_of(ApiKey.FETCH)
    with pytest.raises(ConnectionLostError, match=f"127.0.0.1:{port} (closed the connection|broke: )"):
        connection.call(MetadataRequest(topics=[]))
    connection.close()
