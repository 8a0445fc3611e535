"""A connection to another broker, from the client's side: frames out, and the frames of the responses in.

A frame is received into a buffer of its own, so its records can be kept without a copy. The buffer's memory is taken as it is
written to, so a size alone, which may be wrong, takes none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, cast

from pybroker.network.untouched import untouched
from pybroker.sharing.turns.watchdog import watchdog_of

_SIZE_BYTES: Final = 4
_FRAME_BYTES_MIN: Final = 4  # the correlation id
FRAME_BYTES_MAX: Final = 1 << 30
"""The first bytes of an HTTP response, read as a size, would be more."""


class ClientConnection(asyncio.BufferedProtocol):
    """One connection. `received` gets each frame without its size; `lost` is called once at the end, with the reason."""

    def __init__(self, received: Callable[[memoryview], object], lost: Callable[[str], object]) -> None:
        self._received, self._lost = received, lost
        self._turns = watchdog_of(asyncio.get_running_loop()).watch
        self._transport: asyncio.Transport | None = None
        self._head = bytearray(_SIZE_BYTES)
        self._target = self._head
        self._position = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to receive."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def send(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        """Send a frame."""
        if self._transport is not None:
            self._transport.writelines(parts)

    def close(self, reason: str) -> None:
        """End the connection; `lost` is called before the return."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
            self._lost(reason)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return memoryview(self._target)[self._position :]

    def buffer_updated(self, count: int) -> None:
        """Take bytes over."""
        self._position += count
        if self._position == len(self._target) and self._transport is not None:
            self._turns.begin()
            try:
                self._complete()
            finally:
                self._turns.end("a response of another broker")

    def _complete(self) -> None:
        """Take a size over, or a frame."""
        target, self._position = self._target, 0
        if target is self._head:
            self._begin(int.from_bytes(target, "big", signed=True))
        else:
            self._target = self._head
            self._received(memoryview(target))

    def _begin(self, size: int) -> None:
        if not _FRAME_BYTES_MIN <= size <= FRAME_BYTES_MAX:
            self.close(f"the size of a response is {size} bytes")
            return
        try:
            self._target = untouched(size)
        except MemoryError:
            self.close(f"there is no memory for a response of {size} bytes")

    def eof_received(self) -> bool:
        """End the connection when the broker ends it."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end."""
        if self._transport is not None:
            self._transport = None
            self._turns.begin()
            try:
                self._lost(str(exc) if exc is not None else "the broker closed the connection")
            finally:
                self._turns.end("a lost connection to another broker")
