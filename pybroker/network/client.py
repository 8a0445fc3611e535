"""A connection to another broker, from the client's side: frames out, and the frames of the responses in.

A frame is received into a buffer of its own, so its records can be kept without a copy. A buffer of a large frame grows with what
arrives, so a size alone, which may be wrong, takes no memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, cast

_SIZE_BYTES: Final = 4
FRAME_BYTES_MAX: Final = (1 << 31) - 1
GROWTH_BYTES: Final = 1 << 20


class ClientConnection(asyncio.BufferedProtocol):
    """One connection. `received` gets each frame without its size; `lost` is called once at the end, with the reason."""

    def __init__(self, received: Callable[[memoryview], object], lost: Callable[[str], object]) -> None:
        self._received, self._lost = received, lost
        self._transport: asyncio.Transport | None = None
        self._head = bytearray(_SIZE_BYTES)
        self._target = self._head
        self._position = 0
        self._frame_bytes = -1  # of the frame that arrives; -1 while its size does

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
        if self._position < len(self._target) or self._transport is None:
            return
        if self._frame_bytes < 0:
            self._begin(int.from_bytes(self._head, "big", signed=True))
        elif len(self._target) < self._frame_bytes:
            self._target.extend(bytes(min(len(self._target), self._frame_bytes - len(self._target))))
        else:
            frame = self._target
            self._target, self._position, self._frame_bytes = self._head, 0, -1
            self._received(memoryview(frame))

    def _begin(self, size: int) -> None:
        if not _SIZE_BYTES <= size <= FRAME_BYTES_MAX:
            self.close(f"the size of a response is {size} bytes")
            return
        self._frame_bytes, self._position = size, 0
        self._target = bytearray(min(size, GROWTH_BYTES))

    def eof_received(self) -> bool:
        """End the connection when the broker ends it."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end."""
        if self._transport is not None:
            self._transport = None
            self._lost(str(exc) if exc is not None else "the broker closed the connection")
