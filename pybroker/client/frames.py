"""Frames over one socket: the size of a request or a response, and that many bytes; and how they are read without the codec.

This module uses only `socket` and `struct`, because the commands of health checks need no more.
"""

from __future__ import annotations

import socket  # noqa: TC003  `typing` is slow to import
import struct
import time

from pybroker.client.errors import ClosedError, ProtocolError, SilentError, reason_of, sentence_of

DAMAGE = (struct.error, UnicodeDecodeError)
"""The errors that a Reader raises when the bytes are damaged."""

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_HEAD = struct.Struct(">ihhih")
_FRAME_BYTES_MAX = 1 << 30  # the first bytes of an HTTP response, read as a size, would be more
_PARTS_MAX = 64  # in a system call; IOV_MAX is 1024

Bytes = bytes | bytearray | memoryview


class Frames:
    """Owns a connected socket, whose timeout bounds each wait for bytes. Close it.

    With `response_s`, it also bounds the wait for each response as a whole. Every method but `close` raises ClientError; then the
    object cannot be used again.
    """

    def __init__(
        self,
        connected: socket.socket,
        *,
        address: str,
        client_id: str,
        response_s: float | None = None,
        frame_bytes_max: int = _FRAME_BYTES_MAX,
    ) -> None:
        self.address, self.client_id, self.correlation_id = address, client_id, 0
        self._socket, self._response_s, self._frame_bytes_max = connected, response_s, frame_bytes_max
        self._has_tls = hasattr(connected, "cipher")  # such a socket sends no parts at once
        self._deadline = 0.0

    def __enter__(self) -> Frames:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def ask(self, key: int, *, version: int, body: bytes = b"") -> bytes:
        """Send a request with header v1 and return its response without size and correlation id."""
        self.correlation_id += 1
        name = self.client_id.encode()
        size = _HEAD.size - _INT32.size + len(name) + len(body)
        self.send([_HEAD.pack(size, key, version, self.correlation_id, len(name)), name, body])
        return bytes(self.receive()[4:])

    def send(self, parts: list[Bytes]) -> None:
        """Send a frame, whose size the first part begins with, without joining its parts."""
        views = [memoryview(part).cast("B") for part in parts if len(part)]
        if self._response_s is not None:
            self._deadline = time.monotonic() + self._response_s
        try:
            while views:
                self._bound()
                sent = self._socket.send(views[0]) if self._has_tls else self._socket.sendmsg(views[:_PARTS_MAX])
                while views and sent >= len(views[0]):
                    sent -= len(views.pop(0))
                if sent:
                    views[0] = views[0][sent:]
        except OSError as error:
            raise self._failed(error) from error

    def receive(self) -> memoryview:
        """Receive a frame, without its size: a writable view of a buffer of its own."""
        head = self._exactly(_INT32.size)
        (size,) = _INT32.unpack(head)
        if not 0 < size <= self._frame_bytes_max:
            reason = "does not speak Kafka's protocol"
            raise ProtocolError(f"the server {reason}", f"the server at {self.address} {reason}", bytes(head))
        return self._exactly(size)

    def _exactly(self, size: int) -> memoryview:
        view, position = memoryview(bytearray(size)), 0
        try:
            while position < size:
                self._bound()
                count = self._socket.recv_into(view[position:])
                if not count:
                    text = f"the broker at {self.address} closed the connection"
                    raise ClosedError("the broker closed the connection", text, bytes(view[:position]))
                position += count
        except OSError as error:
            raise self._failed(error) from error
        return view

    def _bound(self) -> None:
        """Let the socket wait no longer than the response may take. Raises TimeoutError."""
        if self._response_s is not None:
            left_s = self._deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._socket.settimeout(left_s)

    def _failed(self, error: OSError) -> ClosedError | SilentError:
        cls = SilentError if isinstance(error, TimeoutError) else ClosedError
        return cls(reason_of(error), f"the connection to {self.address} broke: {sentence_of(error)}")


class Reader:
    """Reads a response front to back. Raises struct.error when it is too short."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def int16(self) -> int:
        """Read the next two bytes."""
        (value,) = _INT16.unpack_from(self._data, self._position)
        self._position += 2
        return int(value)

    def int32(self) -> int:
        """Read the next four bytes."""
        (value,) = _INT32.unpack_from(self._data, self._position)
        self._position += 4
        return int(value)

    def byte(self) -> int:
        """Read the next byte."""
        return self.take(1)[0]

    def string(self) -> str | None:
        """Read a length and that many bytes; -1 means None."""
        size = self.int16()
        return None if size < 0 else self.take(size).decode()

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        part = self._data[self._position : self._position + size]
        if len(part) < size:
            raise struct.error(f"{size} bytes are needed, {len(part)} are left")
        self._position += size
        return part
