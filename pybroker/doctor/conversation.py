"""Sends a few requests in Kafka's protocol over one socket, each with a time limit."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, Any, Final

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import DecodeError, decode_response, encode_request, message_versions, response_class
from pybroker.protocol.parts import SendPart
from pybroker.protocol.schema import schema_of

if TYPE_CHECKING:
    import socket

CLIENT_ID: Final = "pybroker-doctor"
FRAME_BYTES_MAX: Final = 100 << 20
SASL_HANDSHAKE: Final = 17
_SIZE: Final = struct.Struct(">i")


class ConversationError(Exception):
    """There is no response in Kafka's protocol. `received` holds the bytes that came instead, empty when none came."""

    def __init__(self, text: str, received: bytes = b"") -> None:
        super().__init__(text)
        self.received = received


class ClosedError(ConversationError):
    """The other side closed the connection."""


class SilentError(ConversationError):
    """No bytes came in time."""


class Conversation:
    """Owns a connected socket; used in a `with` block. Every method raises ConversationError."""

    def __init__(self, connected: socket.socket, timeout_s: float) -> None:
        """Take over the socket. `timeout_s` is for each response as a whole."""
        self._socket, self._timeout_s, self._deadline = connected, timeout_s, 0.0
        self._correlation_id = 0
        self.versions: dict[int, tuple[int, int]] = {}

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask_versions(self) -> None:
        """Ask for the APIs and versions that the broker serves; must come first, in the version that every broker since 0.10
        knows.
        """
        from pybroker.protocol.messages.api_versions import ApiVersionsRequest  # noqa: PLC0415  (as it is needed)

        response = self._call(ApiVersionsRequest(), 0)
        self.versions = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}

    def ask(self, request: Any) -> Any:
        """Return the response to a request, in the newest version that both sides support; None when there is no such version."""
        api_key = schema_of(type(request)).api_key
        assert api_key is not None
        lowest, highest = message_versions(api_key)
        theirs = self.versions.get(api_key)
        if theirs is None or theirs[0] > highest or theirs[1] < lowest:
            return None
        return self._call(request, min(highest, theirs[1]))

    def ask_mechanisms(self) -> tuple[str, ...]:
        """Return the SASL mechanisms of a listener that wants a login; empty where none is wanted."""
        self._correlation_id += 1
        client_id, mechanism = CLIENT_ID.encode(), b"PLAIN"
        head = struct.pack(f">hhih{len(client_id)}s", SASL_HANDSHAKE, 0, self._correlation_id, len(client_id), client_id)
        frame = self._exchange([head + struct.pack(f">h{len(mechanism)}s", len(mechanism), mechanism)])
        try:
            _, _, count = struct.unpack_from(">ihi", frame)
            names, position = list[str](), 10
            for _ in range(min(count, 100)):
                (length,) = struct.unpack_from(">h", frame, position)
                names.append(bytes(frame[position + 2 : position + 2 + length]).decode())
                position += 2 + length
        except (struct.error, UnicodeDecodeError) as error:
            raise ConversationError(f"the response to SaslHandshake cannot be read: {error}") from error
        return tuple(names)

    def _call(self, request: Any, version: int) -> Any:
        api_key = schema_of(type(request)).api_key
        assert api_key is not None
        self._correlation_id += 1
        pieces = []
        for part in encode_request(request, version, correlation_id=self._correlation_id, client_id=CLIENT_ID):
            assert not isinstance(part, SendPart), "requests have no late parts"
            pieces.append(bytes(part))
        frame = self._exchange([b"".join(pieces)[_SIZE.size :]])
        try:
            correlation_id, message = decode_response(response_class(api_key), version, frame)
        except DecodeError as error:
            raise ConversationError(f"{ApiKey(api_key).name}: {error}", bytes(frame[:16])) from error
        if correlation_id != self._correlation_id:
            raise ConversationError("the response is to another request", bytes(frame[:16]))
        return message

    def _exchange(self, pieces: list[bytes]) -> memoryview:
        request = b"".join(pieces)
        self._deadline = time.monotonic() + self._timeout_s
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall(_SIZE.pack(len(request)) + request)
            head = self._receive(_SIZE.size)
            (size,) = _SIZE.unpack(head)
            if not 0 < size <= FRAME_BYTES_MAX:
                raise ConversationError("the received bytes are not in Kafka's protocol", bytes(head))
            return self._receive(size)
        except TimeoutError as error:
            raise SilentError("no response in time") from error
        except OSError as error:
            raise ClosedError(error.strerror or str(error)) from error

    def _receive(self, size: int) -> memoryview:
        view, position = memoryview(bytearray(size)), 0
        while position < size:
            left_s = self._deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._socket.settimeout(left_s)
            count = self._socket.recv_into(view[position:])
            if not count:
                raise ClosedError("the connection was closed", bytes(view[:position]))
            position += count
        return view
