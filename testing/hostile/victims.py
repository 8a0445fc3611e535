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
"""How long a connection without TLS is watched that gets no more: the broker waits for the rest of a frame, or holds a response
back.
"""
FIRST_S_MAX: Final = 5.0
"""The same before it has got anything, because the broker may not have come to it, and in a handshake of TLS, which the broker
closes by itself.
"""
LOOK_S: Final = 0.05
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
LAST_ID: Final = 0x7E57ED
"""The correlation id of a good request behind the bad ones: its response shows that the broker is done with them all."""
_START: Final = struct.Struct(">ii")
_SIZE_BYTES: Final = 4


@dataclass(slots=True)
class Attempt:
    """The bytes of one connection.

    Attributes:
        data: all that it sends, for a connection without TLS.
        frames: how many bad frames are in it; with a TLS, how many have been sent.
        good: how many responses belong to good requests that come first.
        is_abrupt: it leaves without reading.
        is_last: it sends nothing behind `data`, and lets the broker know.
        client: its TLS, which has sent `data`.
        incoming, outgoing: the two sides of this TLS.
        spoil: makes the next flight of this TLS bad, and returns how many bad messages are in it.
    """

    data: bytes
    frames: int = 1
    good: int = 0
    is_abrupt: bool = False
    is_last: bool = False
    client: ssl.SSLObject | None = None
    incoming: ssl.MemoryBIO | None = None
    outgoing: ssl.MemoryBIO | None = None
    spoil: Callable[[bytes], tuple[bytes, int]] | None = None


class Victim:
    """A connection that has sent its bad frames. `received` is what has come back."""

    def __init__(self, address: tuple[str, int], attempt: Attempt) -> None:
        self.attempt = attempt
        self.received = bytearray()
        self.deadline = time.monotonic() + FIRST_S_MAX
        self.socket = socket.socket()
        self.socket.connect(address)
        self.socket.setblocking(False)
        self._responses = self._position = 0
        self._has_last = False
        if attempt.is_abrupt:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self._send(attempt.data, is_last=attempt.is_last)

    def read(self) -> bool:
        """Take what has come. Returns whether the connection is at its end."""
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        self.received += data
        if self.attempt.client is None:
            self.deadline = time.monotonic() + QUIET_S_MAX
            self._count()
        elif data:
            self.deadline = time.monotonic() + FIRST_S_MAX
            self._continue(data)
        return not data

    def has_all_responses(self) -> bool:
        """Return whether the request behind the bad ones has its response, or each of them has one."""
        return self._has_last or (self.attempt.client is None and self._responses > self.attempt.good + self.attempt.frames)

    def handled(self, *, is_closed: bool) -> int:
        """Return how many bad frames the broker is done with."""
        if self._has_last or self.attempt.client is not None:
            return self.attempt.frames
        return max(0, min(self._responses - self.attempt.good + is_closed, self.attempt.frames))

    def _count(self) -> None:
        while self._position + _START.size <= len(self.received):
            size, correlation_id = _START.unpack_from(self.received, self._position)
            if self._position + _SIZE_BYTES + size > len(self.received):
                return
            self._position += _SIZE_BYTES + size
            self._responses += 1
            self._has_last = correlation_id == LAST_ID

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
        if not attempt.frames and (flight := attempt.outgoing.read()):
            spoiled, attempt.frames = attempt.spoil(flight)
            self._send(spoiled, is_last=True)

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
    handled, look_s = 0, 0.0
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as cleanup:
        waiting: dict[socket.socket, Victim] = {}
        cleanup.callback(lambda: [one.close() for one in waiting])

        def drop(victim: Victim, *, is_closed: bool) -> int:
            check(victim.attempt, bytes(victim.received))
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
            if (now := time.monotonic()) < look_s:
                continue
            look_s = now + LOOK_S
            for victim in [one for one in waiting.values() if one.deadline < now]:
                handled += drop(victim, is_closed=False)
    return handled
