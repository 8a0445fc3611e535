"""One connection to one broker: it sends requests and receives the responses in their order."""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, final

from pybroker import __version__
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import DecodeError, decode_response, encode_request, message_versions, response_class
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.api_versions import ApiVersionsRequest
from pybroker.protocol.parts import SendPart
from pybroker.protocol.schema import schema_of
from pybroker.spark.wire.errors import ConnectionLostError, NotKafkaError, check

CLIENT_ID: Final = "pybroker-spark-jobs"
_SIZE: Final = struct.Struct(">i")
_FRAME_BYTES_MAX: Final = 1 << 30  # the first bytes of an HTTP response, read as a size, would be more
_API_VERSIONS_VERSION: Final = 3  # Kafka 2.4 and later
_PARTS_MAX: Final = 64  # in a system call; IOV_MAX is 1024


@final
class Connection:
    """A connection, which asks the broker for its API versions when it is made.

    Making it and every method raise ConnectionLostError and NotKafkaError. After an error, the connection cannot be used again.
    """

    def __init__(self, host: str, port: int, *, timeout_s: float = 30.0) -> None:
        self.address = f"{host}:{port}"
        self._waiting: deque[tuple[int, type[Any], int]] = deque()
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise ConnectionLostError(f"no broker at {self.address}: {_reason(error)}") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._versions = self._request_versions()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def version_of(self, api_key: int) -> int:
        """Return the highest version of an API that both sides support. Raises NotKafkaError when there is none."""
        lowest, highest = message_versions(api_key)
        theirs = self._versions.get(api_key)
        if theirs is None or theirs[0] > highest or theirs[1] < lowest:
            raise NotKafkaError(
                f"the broker at {self.address} supports no version of {ApiKey(api_key).name} that this client supports"
            )
        return min(highest, theirs[1])

    def send(self, request: Any) -> None:
        """Send a request in the highest version that both sides support; `receive` returns its response."""
        api_key = schema_of(type(request)).api_key
        assert api_key is not None
        self._send(request, self.version_of(api_key))

    def receive(self) -> Any:
        """Receive the response to the oldest open request. Its records are a writable view of a buffer of its own."""
        correlation_id, cls, version = self._waiting.popleft()
        return self._decoded(cls, version, self._frame(), correlation_id)

    def call(self, request: Any) -> Any:
        """Send a request and wait for its response. No other request may be in flight."""
        assert not self._waiting, "responses to earlier requests come first"
        self.send(request)
        return self.receive()

    def _request_versions(self) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version=__version__)
        self._send(request, _API_VERSIONS_VERSION)
        correlation_id, cls, version = self._waiting.popleft()
        frame = self._frame()
        if frame[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2):
            version = 0  # the version of the response to an ApiVersions request whose version the broker does not know
        response = self._decoded(cls, version, frame, correlation_id)
        check(f"the broker at {self.address} does not report its API versions", response.error_code)
        return {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}

    def _send(self, request: Any, version: int) -> None:
        api_key = schema_of(type(request)).api_key
        assert api_key is not None
        self._correlation_id += 1
        pieces: list[bytes | bytearray | memoryview] = []
        for part in encode_request(request, version, correlation_id=self._correlation_id, client_id=CLIENT_ID):
            assert not isinstance(part, SendPart), "requests have no late parts"
            pieces.append(part)
        try:
            _send_all(self._socket, pieces)
        except OSError as error:
            raise ConnectionLostError(f"the connection to {self.address} broke: {_reason(error)}") from error
        self._waiting.append((self._correlation_id, response_class(api_key), version))

    def _frame(self) -> memoryview:
        (size,) = _SIZE.unpack(self._receive_exactly(_SIZE.size))
        if not 0 < size <= _FRAME_BYTES_MAX:
            raise NotKafkaError(f"the server at {self.address} does not speak Kafka's protocol")
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> memoryview:
        view, position = memoryview(bytearray(size)), 0
        try:
            while position < size:
                count = self._socket.recv_into(view[position:])
                if not count:
                    raise ConnectionLostError(f"the broker at {self.address} closed the connection")
                position += count
        except OSError as error:
            raise ConnectionLostError(f"the connection to {self.address} broke: {_reason(error)}") from error
        return view

    def _decoded(self, cls: type[Any], version: int, frame: memoryview, correlation_id: int) -> Any:
        try:
            response_id, message = decode_response(cls, version, frame)
        except DecodeError as error:
            raise NotKafkaError(f"the server at {self.address} does not speak Kafka's protocol: {error}") from error
        if response_id != correlation_id:
            raise NotKafkaError(
                f"the broker at {self.address} responded to request {response_id}, "
                f"but the client waits for request {correlation_id}"
            )
        return message


def _send_all(out: socket.socket, parts: Sequence[bytes | bytearray | memoryview]) -> None:
    """Send all parts without joining them."""
    views = deque(memoryview(part).cast("B") for part in parts if len(part))
    while views:
        sent = out.sendmsg(list(views)[:_PARTS_MAX])
        while sent:
            if sent < len(views[0]):
                views[0] = views[0][sent:]
                break
            sent -= len(views.popleft())


def _reason(error: OSError) -> str:
    return "no response in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
