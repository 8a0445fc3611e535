# cython: annotation_typing=False
"""Turns responses into bytes, without a socket: the sending half of one connection. `_sender_native` is this same text, compiled
with the types of `_sender_native.pxd`. A number of Python has 64 bits in the extension.

Small responses are joined into one write per turn of the connection. A large response is pulled in pieces. Each piece is handed
to the transport in one `writelines` (header and first views together), and the next follows only when the transport has nothing
left unsent, because a transport that keeps references keeps a whole piece until its last byte is out. So a consumer that never
reads can make the broker hold one such piece, however much it fetched. Views into a mapped log file are handed over as they are;
the transport keeps them alive until they are sent.

Pieces are small (SMALL_PIECE_BYTES) until the consumer has read QUICK_BYTES without making the broker wait for longer than
QUICK_NS at a time. Then they are large, which costs less CPU time, as long as not too many connections have large pieces.

A part that makes its bytes (`SendPart.makes_bytes`) is pulled once for each piece. Parts small enough to be one chunk together
are pulled together; otherwise a response from many partitions would need one write for each.

A part whose bytes are not in the page cache reports it (`SendPart.cold`) and is read in a thread before its pull.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybroker.network.context import Outgoing
    from pybroker.network.counters import ListenerCounters
    from pybroker.network.large_pieces import LargePieces
    from pybroker.protocol.parts import SendPart

__all__ = ["Sender"]

SMALL_PIECE_BYTES: Final = 112 * 1024
"""At most this much of a large response is with the transport at a time, and what stands in front of the records."""
PIECE_BYTES: Final = 1024 * 1024
"""The same for a consumer that reads quickly."""
COPIED_PIECE_BYTES: Final = 128 * 1024
"""The same for a transport that copies what is handed to it, where a large piece costs six times the CPU of a small one."""
QUICK_BYTES: Final = 1024 * 1024
"""A consumer has read this much before its pieces become large: more than the buffers of both sockets usually take."""
QUICK_NS: Final = 100_000_000
"""A consumer that makes the broker wait for longer than this gets small pieces."""
TURN_BYTES: Final = 4 * PIECE_BYTES
"""After this many bytes other connections have their turn, even if the socket takes more."""
MADE_BYTES: Final = SMALL_PIECE_BYTES
"""Parts that make their bytes are pulled together up to this total size."""
HIGH_WATER_BYTES: Final = 16 * 1024
"""The transport asks for no more while it has more than this unsent."""
ALL_SENT_BYTES: Final = 1
"""The same while a piece must have left before the next is handed over. Not 0, at which a transport with TLS, which stops at its
mark and not above it, would never ask again."""
JOINED_BYTES: Final = 64 * 1024
"""Small responses are joined until they reach this many bytes."""

_COUNTED_PARTS: Final = 200

_BYTES: Final = (bytes, bytearray, memoryview)  # a union of types would be made again for every part of a response


class Output(Protocol):
    """The part of a transport that the sender needs."""

    def write(self, data: bytes) -> None:
        """Send a copy, or keep a reference."""

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send several buffers, each as `write` does."""

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes not sent yet."""

    def set_write_buffer_limits(self, high: int) -> None:
        """Set the high water mark, and pause the writer if it is exceeded already."""


class SenderOwner(Protocol):
    """The connection, as its sender sees it."""

    def run_in_thread(
        self, function: Callable[[], None], done: Callable[[BaseException | None], None], *, is_conversion: bool
    ) -> None:
        """Run `function` in a thread, then `done` in the loop with the exception that `function` raised, or None. Conversions
        have threads of their own.
        """

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` in the loop's next iteration."""

    def output_ready(self) -> None:
        """Continue, because the sender is not blocked any more. The sender does not call this when the block ends within the
        connection's own call of `stream` or `flush`.
        """

    def output_failed(self, error: BaseException) -> None:
        """Close the connection: a part could not give the bytes it had promised, so the response cannot be finished."""


class _Gone:
    """The owner of a sender that is closed: it does nothing."""

    def run_in_thread(
        self, function: Callable[[], None], done: Callable[[BaseException | None], None], *, is_conversion: bool
    ) -> None:
        """Run nothing."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call nothing."""

    def output_ready(self) -> None:
        """Do nothing."""

    def output_failed(self, error: BaseException) -> None:
        """Do nothing."""


_GONE: Final = _Gone()


class Sender:
    """The responses of one connection, in order.

    `is_blocked`: a response is not wholly handed over, or the transport is above its high water mark; then nothing may be queued.
    """

    __slots__ = (
        "_chunks",
        "_chunks_bytes",
        "_counters",
        "_has_large_pieces",
        "_high_water",
        "_is_in_thread",
        "_is_paused",
        "_large_piece_bytes",
        "_large_pieces",
        "_made_bytes",
        "_now_ns",
        "_on_sent",
        "_outgoing",
        "_output",
        "_owner",
        "_part_index",
        "_part_left",
        "_paused_ns",
        "_piece_bytes",
        "_quick_bytes",
        "bytes_out",
        "is_blocked",
        "is_closed",
    )

    def __init__(
        self,
        output: Output,
        owner: SenderOwner,
        counters: ListenerCounters,
        large_pieces: LargePieces,
        *,
        piece_bytes: int = PIECE_BYTES,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._output = output
        self._owner: SenderOwner = owner
        self._counters = counters
        self._large_pieces = large_pieces
        self._large_piece_bytes = piece_bytes
        self._has_large_pieces = False  # counted in `_large_pieces`
        self._piece_bytes = SMALL_PIECE_BYTES
        self._quick_bytes = 0  # taken since the transport last made us wait for long
        self._paused_ns = 0
        self._now_ns = now_ns
        self._chunks: list[bytes | bytearray | memoryview] = []  # gathered for the next write
        self._chunks_bytes = 0
        self._made_bytes = 0  # bytes of parts that make them, as gathered now or as they may yet make
        self._high_water = HIGH_WATER_BYTES  # of the transport now
        self._outgoing: Outgoing | None = None  # the response in hand
        self._part_index = 0  # index of its next part
        self._part_left = -1  # bytes that this part has yet to give; -1 when it was not begun
        self._on_sent: Callable[[], None] | None = None  # waits for the high water mark
        self._is_paused = False
        self._is_in_thread = False
        self.bytes_out = 0  # until the connection takes the number
        self.is_blocked = False
        self.is_closed = False

    def queue(self, response: bytes) -> None:
        """Send `response`, joined with others, at the next `flush` at the latest."""
        self._chunks.append(response)
        self._chunks_bytes += len(response)
        if self._chunks_bytes >= JOINED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand over the responses that `queue` collected."""
        chunks = self._chunks
        if not chunks:
            return
        self._chunks = []
        self._counters.bytes_out += self._chunks_bytes
        self.bytes_out += self._chunks_bytes
        self._chunks_bytes = 0
        first = chunks[0]
        self._output.write(first if len(chunks) == 1 and type(first) is bytes else b"".join(chunks))

    def stream(self, outgoing: Outgoing) -> None:
        """Send `outgoing`, owned from now on, after the queued responses."""
        assert self._outgoing is None
        self._outgoing = outgoing
        self._part_index, self._part_left = 0, -1
        self.is_blocked = True
        self._pump()

    def pause(self) -> None:
        """Stop writing: the transport is above its high water mark."""
        self._is_paused = self.is_blocked = True
        self._paused_ns = self._now_ns()

    def resume(self) -> None:
        """Write again: the transport is below its low water mark."""
        self._is_paused = False
        if self._now_ns() - self._paused_ns > QUICK_NS:
            self._quick_bytes = 0
            self._leave_large_pieces()
        if self._outgoing is None:
            self._leave_large_pieces()
            self._set_high_water(HIGH_WATER_BYTES)
        on_sent, self._on_sent = self._on_sent, None
        if on_sent is not None:
            on_sent()
        self._continue()

    def unsent_bytes(self) -> int:
        """Return how much memory the responses take that the peer has not taken: about, if they have very many parts."""
        held = self._output.get_write_buffer_size()
        if self._outgoing is not None:
            held += sum(len(part) for part in self._outgoing.parts[:_COUNTED_PARTS] if isinstance(part, _BYTES))
        return held

    def close(self) -> None:
        """Close all parts and call `on_sent`: the connection is gone."""
        self.is_closed = self.is_blocked = True
        self._chunks = []
        self._leave_large_pieces()
        on_sent, self._on_sent = self._on_sent, None
        if on_sent is not None:
            on_sent()
        if not self._is_in_thread:
            self._discard()  # else when the thread is done with the part
        elif self._outgoing is not None and (part := self._outgoing.parts[self._part_index]).makes_bytes:  # type: ignore[union-attr]  # as above
            part.close()  # type: ignore[union-attr]  # which ends a conversion at its next piece
        self._owner = _GONE  # no cycle remains, so the garbage collector need not find it

    def _discard(self) -> None:
        outgoing, self._outgoing = self._outgoing, None
        if outgoing is not None:
            outgoing.discard(self._part_index)

    def _continue(self) -> None:
        """Continue after a wait of any kind."""
        if self.is_closed or self._is_in_thread:
            return
        self._pump()
        if not self.is_blocked:
            self._owner.output_ready()

    def _pump(self) -> None:
        turn_bytes = 0
        while self._outgoing is not None and not self._is_paused:
            if turn_bytes >= TURN_BYTES:
                self._owner.call_soon(self._continue)
                return
            if self._quick_bytes >= QUICK_BYTES and not self._has_large_pieces:
                self._try_large_pieces()
            try:
                cold = self._gather(self._outgoing)
            except Exception as error:  # a file that cannot be read, or a bug: either way the peer waits for these bytes
                self._owner.output_failed(error)
                return
            turn_bytes += self._chunks_bytes
            is_last = cold is None and self._part_index == len(self._outgoing.parts)
            self._write(is_last)
            if is_last:
                self._finish()
            elif cold is not None:
                self._is_in_thread = True
                part = self._outgoing.parts[self._part_index]
                self._owner.run_in_thread(cold, self._thread_done, is_conversion=part.makes_bytes)  # type: ignore[union-attr]  # a cold part is late
                return
        self.is_blocked = self._is_paused or self._outgoing is not None

    def _gather(self, outgoing: Outgoing) -> Callable[[], None] | None:
        """Collect the next piece from the parts: up to the end of the last one, or to a part that must be read in a thread first,
        or to one that makes its bytes and has to wait until the bytes made before are gone.
        """
        parts = outgoing.parts
        while self._part_index < len(parts) and self._chunks_bytes < self._piece_bytes:
            part = parts[self._part_index]
            if isinstance(part, _BYTES):
                self._chunks.append(part)
                self._chunks_bytes += len(part)
            elif part.makes_bytes and self._made_bytes and (self._part_left >= 0 or self._made_bytes + part.size > MADE_BYTES):
                return None
            elif (cold := self._pull(part)) is not None:
                return cold
            elif self._part_left > 0:
                continue
            else:
                part.close()
            self._part_index += 1
            self._part_left = -1
        return None

    def _pull(self, part: SendPart) -> Callable[[], None] | None:
        if self._part_left < 0:
            self._part_left = part.size
        if self._part_left == 0:
            return None
        cold = part.cold()
        if cold is not None:
            return cold
        if part.makes_bytes:
            self._made_bytes += part.size
        pulled = part.pull(self._piece_bytes - self._chunks_bytes)
        count = sum(map(len, pulled))
        if not 0 < count <= self._part_left:
            raise ValueError(f"{type(part).__name__} gave {count} bytes where {self._part_left} were left")
        self._chunks.extend(pulled)
        self._chunks_bytes += count
        self._part_left -= count
        return None

    def _try_large_pieces(self) -> None:
        if self._large_pieces.take():
            self._has_large_pieces = True
            self._piece_bytes = self._large_piece_bytes

    def _leave_large_pieces(self) -> None:
        if self._has_large_pieces:
            self._has_large_pieces = False
            self._piece_bytes = SMALL_PIECE_BYTES
            self._large_pieces.give_back()

    def _write(self, is_last: bool) -> None:
        chunks = self._chunks
        if not chunks:
            return
        count = self._chunks_bytes
        self._chunks = []
        self._chunks_bytes = 0
        self._counters.bytes_out += count
        self.bytes_out += count
        self._quick_bytes += count
        output = self._output
        is_whole = is_last and not self._made_bytes and count <= HIGH_WATER_BYTES
        self._set_high_water(HIGH_WATER_BYTES if is_whole else ALL_SENT_BYTES)
        self._made_bytes = 0
        output.writelines(chunks)
        if not self._is_paused and output.get_write_buffer_size() > self._high_water:
            output.set_write_buffer_limits(self._high_water)  # asyncio's writelines of 3.12 and 3.13.0 forgets to check

    def _set_high_water(self, high: int) -> None:
        """Set how much the transport may have unsent before it asks for no more: hardly anything while it has a piece."""
        if high != self._high_water:
            self._high_water = high
            self._output.set_write_buffer_limits(high)

    def _finish(self) -> None:
        assert self._outgoing is not None
        outgoing, self._outgoing = self._outgoing, None
        if not self._is_paused:  # else when the last piece is out
            self._leave_large_pieces()
            self._set_high_water(HIGH_WATER_BYTES)
        on_sent, outgoing.on_sent = outgoing.on_sent, None
        if on_sent is None:
            return
        if self._is_paused:
            self._on_sent = on_sent
        else:
            on_sent()

    def _thread_done(self, error: BaseException | None) -> None:
        self._is_in_thread = False
        if self.is_closed:
            self._discard()
        elif error is not None:
            self._owner.output_failed(error)
        else:
            self._continue()
