"""A blocking connection to one broker of a bootstrap list: frames out, frames in.

It uses only `socket` and `struct`, because the commands of health checks need no more.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

from pybroker.tools.errors import CommandError, UnreachableError

API_VERSIONS = 18
CLIENT_ID = b"pybroker-commands"
WAIT_S = 60.0
"""How long a command tries to reach a broker: `default.api.timeout.ms` of Kafka's clients, on which init containers rely."""
RESPONSE_S = 30.0
BACKOFF_S, BACKOFF_MAX_S = 0.1, 1.0

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")


def servers(text: str) -> list[tuple[str, int]]:
    """Parse a bootstrap list: `host:port`, `[::1]:port`, with or without a protocol before it. Raises CommandError."""
    found = []
    for one in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = one.rpartition("://")[2].rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise CommandError(f"Invalid url in bootstrap.servers: {one}")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise CommandError("No resolvable bootstrap urls given in bootstrap.servers")
    return found


class Connection:
    """A connection for one request at a time. Close it."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._correlation_id = 0

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def ask(self, key: int, *, version: int, body: bytes = b"") -> bytes:
        """Send a request with header v1 and return its response without size and correlation id. Raises UnreachableError."""
        self._correlation_id += 1
        header = _HEADER.pack(key, version, self._correlation_id, len(CLIENT_ID)) + CLIENT_ID
        return self.exchange(_SIZE.pack(len(header) + len(body)) + header + body)[4:]

    def exchange(self, frame: bytes) -> bytes:
        """Send a whole frame and return the response without its size. Raises UnreachableError."""
        try:
            self._socket.sendall(frame)
            (size,) = _SIZE.unpack(self._receive(4))
            return self._receive(size)
        except OSError as error:
            raise UnreachableError(reason_of(error)) from error

    def _receive(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._socket.recv(min(size, 1 << 20))
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def connect(bootstrap: list[tuple[str, int]], *, wait_s: float = WAIT_S, response_s: float = RESPONSE_S) -> Connection:
    """Return a connection to the first server that responds, trying again until `wait_s` is over.

    A container's published port takes connections before the broker does, so a connection counts only when the broker has
    responded to a request. A name that does not resolve yet is waited for too, because a container's name resolves only once it
    runs. One line on stderr reports that the command waits, and for what. Raises UnreachableError, and CommandError when no name
    resolves.
    """
    end = time.monotonic() + wait_s
    backoff_s = BACKOFF_S
    attempt_s = response_s
    is_logged = False
    while True:
        reasons = []
        is_resolved = False
        for host, port in bootstrap:
            try:
                return _greeted((_encoded(host), port), attempt_s=attempt_s, response_s=response_s)
            except socket.gaierror as error:
                reasons.append(f"{host}:{port}: {reason_of(error)}")
            except (OSError, UnreachableError) as error:
                is_resolved = True
                reasons.append(f"{host}:{port}: {reason_of(error)}")
        left_s = end - time.monotonic()
        if left_s <= 0 and not is_resolved:
            raise CommandError(f"No resolvable bootstrap urls given in bootstrap.servers: {'; '.join(reasons)}")
        if left_s <= 0:
            raise UnreachableError("; ".join(reasons))
        if not is_logged:
            is_logged = True
            print(f"WARN no broker is available yet ({'; '.join(reasons)}); trying for {wait_s:g} s", file=sys.stderr)
        time.sleep(min(backoff_s, left_s))
        backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)
        attempt_s = min(response_s, max(BACKOFF_MAX_S, left_s))


def _greeted(address: tuple[bytes | str, int], *, attempt_s: float, response_s: float) -> Connection:
    """Return a connection that has responded to ApiVersions v0. Raises OSError and UnreachableError."""
    connected = socket.create_connection(address, attempt_s)  # type: ignore[arg-type]  # bytes do
    connection = Connection(connected)
    try:
        connection.ask(API_VERSIONS, version=0)
    except UnreachableError:
        connection.close()
        raise
    connected.settimeout(response_s)
    return connection


def _encoded(host: str) -> bytes | str:
    """Return bytes for a name that is ASCII, because the look-up of a text first imports the codec for international names."""
    return host.encode() if host.isascii() else host


def reason_of(error: Exception) -> str:
    """Return an error in a few words."""
    return getattr(error, "strerror", None) or str(error)
