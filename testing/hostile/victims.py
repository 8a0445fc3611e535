"""Many connections, each with a few bad frames: sends them, and counts how many the broker is done with."""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

CONNECTIONS: Final = 100
QUIET_S_MAX: Final = 0.25
"""How long a connection is watched that gets no more: the broker waits for the rest of a frame, or holds a response back."""
FIRST_S_MAX: Final = 5.0
"""The same before it has got anything, because the broker may not have come to it."""
CONNECT_S: Final = 30
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_SIZE: Final = struct.Struct(">i")


@dataclass(slots=True)
class Attempt:
    """The bytes of one connection.

    Attributes:
        data: all that it sends, for a connection without TLS.
        frames: how many bad frames are in it.
        good: how many responses belong to good requests that come first.
        is_abrupt: it leaves without reading.
        is_last: it sends nothing behind `data`, and lets the broker know.
        client: its TLS, which has sent `data`.
        incoming, outgoing: the two sides of this TLS.
        spoil: makes the next flight of this TLS bad.
    """

    data: bytes
    frames: int = 1
    good: int = 0
    is_abrupt: bool = False
    is_last: bool = False
    client: ssl.SSLObject | None = None
    incoming: ssl.MemoryBIO | None = None
    outgoing: ssl.MemoryBIO | None = None
    spoil: Callable[[bytes], bytes] | None = None


class Victim:
    """A connection that has sent its bad frames. `received` is what has come back."""

    def __init__(self, address: tuple[str, int], attempt: Attempt) -> None:
        self.attempt = attempt
        self.received = b""
        self.deadline = time.monotonic() + FIRST_S_MAX
        self.socket = socket.create_connection(address, CONNECT_S)
        if attempt.is_abrupt:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self._send(attempt.data, is_last=attempt.is_last)
        self.socket.setblocking(False)

    def read(self) -> bool:
        """Take what has come. Returns whether the connection is at its end."""
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        self.deadline = time.monotonic() + QUIET_S_MAX
        self.received += data
        if data and self.attempt.client is not None:
            self._continue(data)
        return not data

    def has_all_responses(self) -> bool:
        """Return whether each frame, and the good ones before and behind them, has a response."""
        return self.attempt.client is None and self._responses() > self.attempt.good + self.attempt.frames

    def handled(self, *, is_closed: bool) -> int:
        """Return how many bad frames the broker is done with."""
        if self.attempt.client is not None:
            return int(is_closed)
        return max(0, min(self._responses() - self.attempt.good + is_closed, self.attempt.frames))

    def _responses(self) -> int:
        count = position = 0
        while position + _SIZE.size <= len(self.received):
            position += _SIZE.size + _SIZE.unpack_from(self.received, position)[0]
            count += position <= len(self.received)
        return count

    def _continue(self, data: bytes) -> None:
        """Do the next step of the handshake, and send a bad flight in place of a good one."""
        attempt = self.attempt
        assert attempt.client is not None
        assert attempt.incoming is not None
        assert attempt.outgoing is not None
        assert attempt.spoil is not None
        attempt.incoming.write(data)
        with contextlib.suppress(ssl.SSLError):
            attempt.client.do_handshake()
        flight = attempt.outgoing.read()
        if flight:
            self.socket.setblocking(True)
            self._send(attempt.spoil(flight), is_last=True)
            self.socket.setblocking(False)

    def _send(self, data: bytes, *, is_last: bool) -> None:
        with contextlib.suppress(OSError):  # the broker closed before it had read everything
            self.socket.sendall(data)
            if is_last:
                self.socket.shutdown(socket.SHUT_WR)


def attack(
    address: tuple[str, int],
    make: Callable[[], Attempt],
    count: int,
    *,
    check: Callable[[Attempt, bytes], None],
    deadline_s: float,
) -> int:
    """Send until the broker is done with `count` frames: it responded, closed the connection, or waits for more.

    `check` judges what each attempt received. At `deadline_s`, of the monotonic clock, it ends sooner. Returns the count.
    """
    handled = 0
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as cleanup:
        waiting: dict[socket.socket, Victim] = {}
        cleanup.callback(lambda: [one.close() for one in waiting])

        def drop(victim: Victim, *, is_closed: bool) -> int:
            check(victim.attempt, victim.received)
            selector.unregister(victim.socket)
            del waiting[victim.socket]
            victim.socket.close()
            return victim.handled(is_closed=is_closed)

        while handled < count and time.monotonic() < deadline_s:
            while len(waiting) < CONNECTIONS:
                victim = Victim(address, make())
                if victim.attempt.is_abrupt:
                    victim.socket.close()
                    continue
                waiting[victim.socket] = victim
                selector.register(victim.socket, selectors.EVENT_READ)
            for key, _ in selector.select(0.02):
                victim = waiting[key.fileobj]  # type: ignore[index]  # a socket, as it was registered
                if victim.read():
                    handled += drop(victim, is_closed=True)
                elif victim.has_all_responses():
                    handled += drop(victim, is_closed=False)
            now = time.monotonic()
            for victim in [one for one in waiting.values() if one.deadline < now]:
                handled += drop(victim, is_closed=False)
    return handled
