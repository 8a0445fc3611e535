"""Messages over one connection: requests in versions that both sides support, and their responses in the same order."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from pybroker import __version__
from pybroker.client.errors import ProtocolError
from pybroker.client.requests import common_version, request_parts
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import DecodeError, decode_response, response_class
from pybroker.protocol.schema import schema_of

if TYPE_CHECKING:
    from pybroker.client.frames import Frames


class Connection:
    """A connection to one broker. Close it. Methods raise ClientError; then the connection cannot be used again.

    Attributes:
        versions: the lowest and the highest version of each API that the broker serves, once `ask_versions` has asked for them.
    """

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self.versions: dict[int, tuple[int, int]] = {}
        self._waiting: deque[tuple[int, type[Any], int]] = deque()

    def close(self) -> None:
        """End the connection."""
        self.frames.close()

    def ask_versions(self, version: int) -> int:
        """Ask by this version of ApiVersions what the broker serves, and return the error code of the response."""
        from pybroker.protocol.error_codes import ErrorCode  # noqa: PLC0415  (the tools' start pays for imports, and does not ask)
        from pybroker.protocol.messages.api_versions import ApiVersionsRequest  # noqa: PLC0415

        name = self.frames.client_id
        self.send(ApiVersionsRequest(client_software_name=name, client_software_version=__version__), version)
        correlation_id, cls, version = self._waiting.popleft()
        frame = self.frames.receive()
        if frame[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2):
            version = 0  # the version of the response to an ApiVersions request whose version the broker does not know
        response = self._decoded(cls, version, frame, correlation_id)
        self.versions = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        return int(response.error_code)

    def version_of(self, api_key: int) -> int:
        """Return the highest version of an API that both sides support. Raises ProtocolError when there is none."""
        version = common_version(api_key, self.versions)
        if version is None:
            reason = f"supports no version of {ApiKey(api_key).name} that this client supports"
            raise ProtocolError(f"the broker {reason}", f"the broker at {self.frames.address} {reason}")
        return version

    def send(self, request: Any, version: int | None = None) -> None:
        """Send a request, without a version in the highest that both sides support; `receive` returns its response.

        Raises EncodeError for a value that does not fit.
        """
        api_key = schema_of(type(request)).api_key
        assert api_key is not None
        version = self.version_of(api_key) if version is None else version
        self.frames.correlation_id = correlation_id = self.frames.correlation_id + 1
        self.frames.send(request_parts(request, version, correlation_id=correlation_id, client_id=self.frames.client_id))
        self._waiting.append((correlation_id, response_class(api_key), version))

    def receive(self) -> Any:
        """Receive the response to the oldest open request. Its records are a writable view of a buffer of its own."""
        correlation_id, cls, version = self._waiting.popleft()
        return self._decoded(cls, version, self.frames.receive(), correlation_id)

    def call(self, request: Any, version: int | None = None) -> Any:
        """Send a request and wait for its response. No other request may be in flight."""
        assert not self._waiting, "responses to earlier requests come first"
        self.send(request, version)
        return self.receive()

    def _decoded(self, cls: type[Any], version: int, frame: memoryview, correlation_id: int) -> Any:
        try:
            response_id, message = decode_response(cls, version, frame)
        except DecodeError as error:
            text = f"the server at {self.frames.address} does not speak Kafka's protocol: {error}"
            raise ProtocolError(f"the response cannot be read: {error}", text) from error
        if response_id != correlation_id:
            reason = f"responded to request {response_id}, but the client waits for request {correlation_id}"
            raise ProtocolError(f"the broker {reason}", f"the broker at {self.frames.address} {reason}")
        return message
