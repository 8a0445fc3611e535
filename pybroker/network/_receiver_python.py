# cython: annotation_typing=False
"""Turns bytes into requests, without a socket: the receiving half of one connection. `_receiver_native` is this same text,
compiled with the types of `_receiver_native.pxd`. A number of Python has 64 bits in the extension.

A request on the wire is a size (4 bytes, big-endian, signed) and that many bytes.

Where the bytes lie
    scratch   One buffer for all connections of the process. Bytes are first received here, and requests that are complete
              are handled right from it. No connection owns it between two calls: what cannot be handled at once leaves it.
    prefix    Up to 4 bytes of a size, kept by the connection: all that an idle or a trickling connection holds.
    kept      A buffer from the pool. It holds one request that is being received, counts with exactly its size, and the rest
              is received straight into it, while it grows with what comes; or it holds complete requests that wait behind one
              in work.
    held      A buffer of a request that its handler still works with, although it has returned. It leaves the kept ones when no
              request is left in it. A request in the scratch is copied by its handler; the copy is counted in the pool.
    refused   What had arrived of a request when the pool refused memory. As a rule that is nothing, because only the 4 bytes
              of a size are received while memory is tight or a request is in work.

Receiving ahead
    The scratch takes whatever the socket has, perhaps more than the request at hand. If that request is parked, or its peer does
    not read the response, the bytes behind it hold memory for as long as that takes, and may keep out the very request that they
    wait for. So the broker receives ahead only while the pool has plenty: a whole scratch and half of the pool's size are free.
    Otherwise it receives one request at a time from the connection, first the 4 bytes of its size and then exactly that many
    bytes, and whatever lies behind stays in the kernel, as everything does in Kafka. So bytes that were received ahead hold at
    most half of the pool; a pool that is small beside the scratch is never used for receiving ahead, and an unbounded pool always
    is.

    Nor does it receive ahead behind a request that was larger than the scratch. A producer of large batches sends one after the
    other, and the beginning of each would be copied out of the scratch. So only the size of the next request is received there,
    until a request fits into the scratch again.

Requests that are handled right from the scratch take nothing from the pool, because no other code could notice it. But while the
pool is empty they wait like all others, or take memory of its reserve. So the pool's bound holds for all bytes of requests except
the scratch.

Source: Kafka's NetworkReceive; KIP-72.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import pybroker.network.sizes as sizes  # noqa: PLR0402  (the compiled text takes it from the package that it names)
from pybroker.network.context import ProtocolViolation
from pybroker.network.sizes import PREFIX_BYTES

if TYPE_CHECKING:
    from pybroker.network.admission import Admission
    from pybroker.network.memory_pool import PooledBuffer

__all__ = ["Receiver"]

SCRATCH_BYTES: Final = 128 * 1024
_SIZE_UNKNOWN: Final = -1


class MemoryListener(Protocol):
    """The connection, which learns when the memory that `next_frame` had to wait for is there."""

    def memory_granted(self) -> None:
        """Continue reading. Must not take frames before it returns: it may run inside another connection's handling."""

    def memory_failed(self, error: MemoryError) -> None:
        """Close the connection, because the system has no memory for its request. May run inside another's handling."""


def new_scratch(socket_request_max_bytes: int) -> memoryview:
    """Return the receive buffer that all connections of a process share; it is never larger than a request may be."""
    return memoryview(bytearray(max(PREFIX_BYTES, min(SCRATCH_BYTES, socket_request_max_bytes))))


class _Gone:
    """The listener of a receiver that is closed: it does nothing."""

    def memory_granted(self) -> None:
        """Do nothing."""

    def memory_failed(self, error: MemoryError) -> None:
        """Do nothing."""


_GONE: Final = _Gone()


class Receiver:
    """Takes the bytes that the socket delivers and yields requests one by one.

    Use: `get_buffer`, fill it, `received`, then `next_frame` until there is none, or `leave_scratch` to stop before.
    """

    __slots__ = (
        "_admission",
        "_ahead_used_max",
        "_counted",
        "_end",
        "_frame_size",
        "_held",
        "_is_queued",
        "_kept",
        "_large_bytes",
        "_listener",
        "_pool",
        "_position",
        "_prefix",
        "_refused",
        "_request_bytes_max",
        "_scratch",
        "_source",
        "bytes_come",
        "bytes_wanted",
    )

    def __init__(self, scratch: memoryview, admission: Admission, request_bytes_max: int, listener: MemoryListener) -> None:
        self._scratch = scratch
        self._admission = admission
        self._pool = pool = admission.pool
        self._ahead_used_max = (
            pool.size - pool.size // 2 - len(scratch)
        )  # what may be in use when more than a request is received
        self._request_bytes_max = request_bytes_max
        self._listener: MemoryListener = listener
        self._prefix = b""
        self._source = scratch  # unparsed bytes are source[position:end]
        self._position = 0
        self._end = 0
        self._frame_size = _SIZE_UNKNOWN  # of the request whose prefix has been taken
        self._large_bytes = 0  # of the last request that was not received whole at once, if the scratch is too small for it
        self._kept: PooledBuffer | None = None  # owns `_source`, unless that is the scratch
        self._held: PooledBuffer | None = None
        self._counted = 0  # bytes of a request that were copied from the scratch
        self._is_queued = False  # whether the admission counts its first request
        self._refused: bytes | None = None  # waits for memory
        self.bytes_wanted = self.bytes_come = 0  # for the admission

    def bound(self, request_bytes_max: int) -> None:
        """Refuse requests of more bytes from now on."""
        self._request_bytes_max = request_bytes_max

    @property
    def is_waiting(self) -> bool:
        """Whether a request waits for its memory: reading must pause."""
        return self._refused is not None

    def has_more(self) -> bool:
        """Return whether `next_frame` has something to look at; a half-read request does not count."""
        here = self._end - self._position
        if self._frame_size >= 0:
            return here >= self._frame_size
        return here > 0 or len(self._prefix) == PREFIX_BYTES

    def partial_bytes(self) -> int:
        """Return how many bytes have come of a request that is being received; -1 if the peer owes none."""
        if self._refused is not None or self.has_more():
            return -1
        if self._frame_size >= 0 or self._end > self._position:
            return self._end - self._position
        return len(self._prefix) or -1

    def get_buffer(self, is_busy: bool) -> memoryview:
        """Return where to receive next; never empty. Borrowed until `received`. `is_busy`: a request of this connection is in
        work.
        """
        if self._kept is not None:
            if self._end == len(self._source):
                self._grow()
            return self._source[self._end :]
        prefix = self._prefix
        admission = self._admission
        if (
            not is_busy
            and not self._large_bytes
            and self._pool.used <= self._ahead_used_max
            and admission.queued_requests < admission.queued_requests_max
        ):
            if not prefix:
                return self._scratch
            self._scratch[: len(prefix)] = prefix
            return self._scratch[len(prefix) :]
        assert len(prefix) < PREFIX_BYTES, "the transport ignores pause_reading"
        self._scratch[: len(prefix)] = prefix
        return self._scratch[len(prefix) : PREFIX_BYTES]

    def received(self, count: int) -> None:
        """Take over the `count` bytes that came into the buffer of `get_buffer`."""
        if self._kept is not None:
            self._end += count
            return
        self._position = 0
        self._end = len(self._prefix) + count
        self._prefix = b""

    def next_frame(self) -> memoryview | None:
        """Return the next complete request without its prefix; None: more bytes or memory are needed, and the scratch is left.

        The request is borrowed until the next call, or until `leave_scratch`, which gives its memory back.

        Raises:
            ProtocolViolation: the size is not positive, or exceeds socket.request.max.bytes.
            MemoryError: the system has none for the request. Only `close` may follow.
        """
        if self._kept is not None and self._position == self._end:
            self._release()  # the memory of the previous request
        if self._is_queued:
            self._set_queued(False)
        if self._refused is not None:
            return None
        if len(self._prefix) == PREFIX_BYTES:  # belongs to a request that began to arrive while another one was in work
            self._scratch[:PREFIX_BYTES] = self._prefix
            self._prefix, self._position, self._end = b"", 0, PREFIX_BYTES
        position, size = self._position, self._frame_size
        if size < 0:
            if self._end - position < 4:
                if self._end > position:
                    self._keep_prefix()
                return None
            size = sizes.size_at(self._source, position)
            if not 0 < size <= self._request_bytes_max:
                raise ProtocolViolation(_size_reason(size, request_bytes_max=self._request_bytes_max))
            self._frame_size = size
            self._position = position = position + PREFIX_BYTES
        end = position + size
        if end <= self._end and (self._kept is not None or self._pool.used < self._pool.open_below):
            self._position, self._frame_size = end, _SIZE_UNKNOWN
            return self._source[position:end]
        if self._kept is None or end > self._kept.size:
            self._keep_request(size)
            if self.has_more():  # a complete request moved from the scratch to the pool's reserve
                return self.next_frame()
        return None

    def leave_scratch(self, *, is_turn_over: bool = False) -> None:
        """Move what is left in the scratch to memory of its own: no more requests are taken for now.

        `is_turn_over`: the next request waits for nothing but other connections' turns, so it counts as queued.

        Raises MemoryError, as `next_frame` does.
        """
        if self._kept is not None and self._position == self._end:
            self._release()
        self._set_queued(is_turn_over and self.has_more())
        if self._kept is not None or self._refused is not None:
            return
        rest = self._source[self._position : self._end]
        if len(rest) <= PREFIX_BYTES:
            self._keep_prefix()
            return
        self._position = self._end = 0
        # The bytes are here, so the bound on the number of requests does not keep them out. The pool does not either, unless its
        # memory was given away meanwhile: this much was received because the pool had plenty.
        buffer = self._pool.try_allocate(len(rest), come=len(rest))
        if buffer is None:
            self._wait(rest, len(rest))
        else:
            self._adopt(buffer, rest)

    def hold(self, size: int) -> bool:
        """Keep the memory of the request that `next_frame` returned last until `let_go`. Returns False if it is the scratch: then
        the caller copies `size` bytes, which are counted.
        """
        assert self._held is None, "a connection has one request in work"
        if self._kept is not None:
            self._held = self._kept
            return True
        self._counted = size
        self._pool.count(size)
        return False

    def let_go(self) -> None:
        """Give the held memory back."""
        held, self._held = self._held, None
        counted, self._counted = self._counted, 0
        if held is not None and held is not self._kept:
            self._pool.release(held)
        self._pool.uncount(counted)

    def granted(self, buffer: PooledBuffer) -> None:
        """Continue with the request that waited for `buffer`."""
        assert self._refused is not None
        self._adopt(buffer, self._refused)
        self._refused = None
        self._listener.memory_granted()

    def failed(self, error: MemoryError) -> None:
        """Give up the request that waited for memory."""
        self._refused = None
        self._listener.memory_failed(error)

    def close(self) -> None:
        """Take no more requests and give everything back. Nothing may be received afterwards. May be called again."""
        if self._refused is not None:
            self._admission.leave(self)
            self._refused = None
        self._set_queued(False)
        if self._kept is not None:
            self._release()
        self._prefix, self._position, self._end, self._frame_size = b"", 0, 0, _SIZE_UNKNOWN
        self._listener = _GONE  # no cycle remains, so the garbage collector need not find it

    def _set_queued(self, is_queued: bool) -> None:
        if is_queued != self._is_queued:
            self._is_queued = is_queued
            if is_queued:
                self._admission.queue()
            else:
                self._admission.unqueue()

    def _keep_prefix(self) -> None:
        self._prefix = bytes(self._source[self._position : self._end])
        self._position = self._end = 0
        if self._kept is not None:
            self._release()

    def _keep_request(self, size: int) -> None:
        """Get memory for the incomplete request of `size` bytes; if there is none, keep the bytes that have come and wait."""
        rest: bytes | memoryview = self._source[self._position : self._end]
        self._position = self._end = 0
        if self._kept is not None:
            rest = bytes(rest)
            self._release()  # first, because it may be the memory that is missing
        wanted, come = max(size, len(rest)), len(rest)
        if self._large_bytes:  # the last one came whole, so this one gets as much at once as if its beginning lay in the scratch
            come = max(come, min(size, len(self._scratch)))
        self._large_bytes = size if PREFIX_BYTES + size > len(self._scratch) else 0
        buffer = self._admission.try_allocate(wanted, come=come)
        if buffer is None:
            self._wait(rest, wanted)
        else:
            self._adopt(buffer, rest)

    def _wait(self, rest: bytes | memoryview, wanted: int) -> None:
        self._refused = bytes(rest)
        self.bytes_wanted, self.bytes_come = wanted, len(rest)
        self._admission.wait(self)

    def _adopt(self, buffer: PooledBuffer, content: bytes | memoryview) -> None:
        self._kept = buffer
        self._source = buffer.view
        self._source[: len(content)] = content
        self._position, self._end = 0, len(content)

    def _grow(self) -> None:
        """Make place for more of a request that is being received, now that no transport has a slice of its buffer."""
        assert self._kept is not None
        assert len(self._source) < self._kept.size, "the transport ignores pause_reading"
        try:
            self._kept.grow()
        except MemoryError as error:
            listener = self._listener
            self.close()  # from now on the scratch receives, and no code reads it
            listener.memory_failed(error)
        else:
            self._source = self._kept.view

    def _release(self) -> None:
        assert self._kept is not None
        buffer, self._kept = self._kept, None
        self._source = self._scratch
        self._position = self._end = 0
        if buffer is not self._held:
            self._pool.release(buffer)


def _size_reason(size: int, *, request_bytes_max: int) -> str:
    if size <= 0:
        return f"a request of {size} bytes"
    bound = f"socket.request.max.bytes ({request_bytes_max}), which before a login is sasl.server.max.receive.size"
    return f"a request of {size} bytes is larger than {bound}"
