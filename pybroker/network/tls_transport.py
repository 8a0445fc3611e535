"""TLS between a connection and its socket, by OpenSSL's BIOs in memory: to the connection a transport, to the socket a protocol.

What lies in the BIOs is bounded by constants. At most SLICE_BYTES are received at once, and while the connection is not read,
what the peer sends stays in the kernel; a record that has not come whole adds at most 16 kB. What is sent goes to the socket's
transport slice by slice. All connections receive into one buffer: what is encrypted does not stay there. So an idle connection
holds what OpenSSL does, and the BIOs' memory, which grows to a slice and is not given back.

A step of a handshake runs in a thread, because a signature by a key of RSA 4096 takes longer than a turn of the loop may. Nothing
is received meanwhile. A handshake that fails sends its alert, so that the client learns the reason.

The end of TLS is sent, and that of the peer is not awaited, because nothing that is still to come would be read.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor

    from pybroker.network.connection import Connection
    from pybroker.sharing.turns.watch import Watch

SLICE_BYTES: Final = 64 * 1024
HANDSHAKE_SLICE_BYTES: Final = 16 * 1024
"""The same until the handshake is done."""


class TlsTransport(asyncio.BufferedProtocol, asyncio.Transport):
    """The TLS of one connection at the server's side. Belongs to the loop.

    Args:
        context: has the broker's certificate.
        connection: makes the connection, once the handshake is done.
        scratch: what is received into, SLICE_BYTES or more; nothing else writes there within one call.
        steps: runs steps of handshakes in a thread.
        turns: times the turns of the loop.

    Attributes:
        established: done with the handshake, or with its error: OSError, of which ssl.SSLError is one.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        connection: Callable[[], asyncio.BaseProtocol],
        *,
        scratch: memoryview,
        steps: Executor,
        turns: Watch,
    ) -> None:
        self._context, self._make, self._steps, self._turns = context, connection, steps, turns
        self._scratch, self._into = scratch[:SLICE_BYTES], scratch[:HANDSHAKE_SLICE_BYTES]
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._connection: Connection | None = None  # once the handshake is done
        self._is_paused = self._is_closed = self._has_ended = False
        self.established: asyncio.Future[None] = self._loop.create_future()

    # -- what the socket's transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first bytes of the handshake."""
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return the buffer that the socket's transport receives into."""
        return self._into

    def buffer_updated(self, nbytes: int) -> None:
        """Take over the `nbytes` that came."""
        self._turns.begin()
        try:
            self._incoming.write(self._into[:nbytes])
            if self._connection is None:
                self._step()
            else:
                self._read(self._connection)
        finally:
            self._turns.end("bytes in over TLS")

    def eof_received(self) -> bool:
        """Hand over what came before the end, and close: TLS has no half-closed state."""
        self._has_ended = True
        if self._connection is not None:
            self._read(self._connection)
        return self._is_paused

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end, to the connection or to what waits for the handshake."""
        self._is_closed = True
        if not self.established.done():
            self.established.set_exception(exc if isinstance(exc, OSError) else ConnectionResetError())
        connection, self._connection = self._connection, None  # no cycle remains
        if connection is not None:
            connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """Stop the connection: the socket's transport is above its high water mark."""
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Let the connection send again."""
        if self._connection is not None:
            self._connection.resume_writing()

    # -- the handshake

    def _step(self) -> None:
        try:
            step = self._loop.run_in_executor(self._steps, self._ssl.do_handshake)
        except RuntimeError:  # the listener is closed
            self.abort()
            return
        self._transport.pause_reading()
        step.add_done_callback(self._stepped)

    def _stepped(self, step: asyncio.Future[None]) -> None:
        error = None if step.cancelled() else step.exception()
        if self._is_closed or step.cancelled():
            return
        self._send()
        if error is None:
            self.established.set_result(None)
            self._into = self._scratch
            self._connection = connection = cast("Connection", self._make())
            connection.connection_made(self)
            if not self._is_closed:
                self._transport.resume_reading()
                self._read(connection)
        elif isinstance(error, ssl.SSLWantReadError):
            self._transport.resume_reading()
        else:
            self.established.set_exception(error)
            self._is_closed = True
            self._transport.close()

    # -- bytes

    def _read(self, connection: Connection) -> None:
        """Decrypt what came, until the connection is not read any more."""
        is_drained = False
        try:
            while not (self._is_paused or self._is_closed or is_drained):
                count, is_drained = self._fill(connection.get_buffer(-1))
                if count:
                    connection.buffer_updated(count)
        except ssl.SSLError:  # the peer breaks the protocol, or is another
            self._send()
            self.abort()
            return
        self._send()
        if self._has_ended and not self._is_paused and not self._is_closed:
            connection.eof_received()
            self.close()

    def _fill(self, buffer: memoryview) -> tuple[int, bool]:
        """Decrypt into the buffer. Returns how many bytes, and whether nothing more can be decrypted. No view of it remains."""
        tls, incoming = self._ssl, self._incoming
        count, size = 0, len(buffer)
        try:
            while count < size:
                if not (incoming.pending or tls.pending()):
                    return count, True
                taken: Any = tls.read(size - count, buffer[count:] if count else buffer)
                if not taken:
                    self._has_ended = True
                    return count, True
                count += taken
        except ssl.SSLWantReadError:
            return count, True
        return count, False

    def _send(self) -> None:
        """Send what OpenSSL has to send: of a handshake, an alert, a new key."""
        if self._outgoing.pending and not self._transport.is_closing():
            self._transport.write(self._outgoing.read())

    def _read_on(self) -> None:
        try:
            if self._connection is not None:
                self._read(self._connection)
        except Exception:
            self.abort()  # as the socket's transport does when it is the caller
            raise

    # -- what the connection calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Encrypt and send. Short buffers are joined, because each would be a record."""
        if self._is_closed:
            return
        encrypt, outgoing = self._ssl.write, self._outgoing
        short: list[bytes | bytearray | memoryview] = []
        chunks = []
        short_bytes = 0
        for data in list_of_data:
            size = len(data)
            if short_bytes + size <= SLICE_BYTES:
                short.append(data)
                short_bytes += size
                continue
            if short:
                encrypt(b"".join(short))
                short, short_bytes = [], 0
            view = memoryview(data)
            for start in range(0, size, SLICE_BYTES):
                encrypt(view[start : start + SLICE_BYTES])
                chunks.append(outgoing.read())
        if short:
            encrypt(short[0] if len(short) == 1 else b"".join(short))
            chunks.append(outgoing.read())
        self._transport.writelines(chunks)

    def get_write_buffer_size(self) -> int:
        """Return the number of encrypted bytes not sent yet."""
        return int(self._transport.get_write_buffer_size())

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the water marks, in encrypted bytes."""
        self._transport.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        """Hand over nothing more, and receive nothing more."""
        self._is_paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Hand over what has come, and receive again."""
        self._is_paused = False
        self._transport.resume_reading()
        if self._has_ended or self._incoming.pending or self._ssl.pending():
            self._loop.call_soon(self._read_on)

    def is_closing(self) -> bool:
        """Return whether the end has begun."""
        return self._is_closed or bool(self._transport.is_closing())

    def close(self) -> None:
        """Send what was written, and the end of TLS; then close."""
        if not self._is_closed:
            self._is_closed = True
            with suppress(ssl.SSLError):  # the peer's end has not come
                self._ssl.unwrap()
            self._send()
            self._transport.close()

    def abort(self) -> None:
        """Close now; unsent bytes are lost."""
        self._is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what asyncio's TLS names, and what the socket's transport does."""
        if name == "ssl_object":
            return self._ssl
        if name == "sslcontext":
            return self._context
        return self._transport.get_extra_info(name, default)
