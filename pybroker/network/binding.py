"""Binds the sockets of listeners. A socket that is bound and does not listen yet refuses clients, and keeps its port.

On Linux, two processes that start at once may both bind a port; then the second one that listens gets the error.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

from pybroker.network.limits import OS_DEFAULT, Listener, host_and_port

if TYPE_CHECKING:
    from collections.abc import Sequence


async def bind_all(listeners: Sequence[Listener], *, send_buffer_bytes: int, receive_buffer_bytes: int) -> list[socket.socket]:
    """Return a bound socket for each listener, or bind none. The caller owns the sockets.

    Raises:
        OSError: an address cannot be bound; its text names the property and the listener.
    """
    bound: list[socket.socket] = []
    try:
        for listener in listeners:
            bound.append(await _bind(listener, send_buffer_bytes=send_buffer_bytes, receive_buffer_bytes=receive_buffer_bytes))  # noqa: PERF401  (closed on failure)
    except OSError:
        for one in bound:
            one.close()
        raise
    return bound


class TcpSocket(socket.socket):
    """A socket whose family and type are numbers: an `IntEnum` each time that the loop asks for one of them costs a microsecond.

    The loop knows by IPPROTO_TCP that each connection has TCP_NODELAY.
    """

    __slots__ = ()

    family = socket.SocketType.family  # type: ignore[assignment]
    type = socket.SocketType.type  # type: ignore[assignment]
    detach = socket.SocketType.detach

    def accept(self) -> tuple[TcpSocket, Any]:
        """Return a connection as a socket that blocks, which the loop changes, and the address of its peer."""
        descriptor, address = self._accept()  # type: ignore[attr-defined]
        return TcpSocket(self.family, self.type, self.proto, fileno=descriptor), address


async def why_not_listen(host: str, port: int) -> str | None:
    """Return why no program can listen at an address now; None if one can."""
    try:
        bound = await bind_all([Listener(host=host, port=port)], send_buffer_bytes=OS_DEFAULT, receive_buffer_bytes=OS_DEFAULT)
    except OSError as error:
        return error.__cause__.strerror if isinstance(error.__cause__, OSError) else str(error)
    for one in bound:
        one.close()
    return None


def refusal(listener: Listener, error: OSError) -> OSError:
    """Return the error with a text that names the property and the listener."""
    address = host_and_port(listener.host, listener.port)
    return OSError(error.errno, f"listeners={listener.name}://{address}: cannot listen there: {error.strerror or error}")


async def _bind(listener: Listener, *, send_buffer_bytes: int, receive_buffer_bytes: int) -> socket.socket:
    try:
        family, address = await _resolve(listener)
        bound = TcpSocket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            _set_options(bound, family, send_buffer_bytes=send_buffer_bytes, receive_buffer_bytes=receive_buffer_bytes)
            bound.bind(address)
        except BaseException:
            bound.close()
            raise
    except OSError as error:
        raise refusal(listener, error) from error
    return bound


def _set_options(bound: socket.socket, family: int, *, send_buffer_bytes: int, receive_buffer_bytes: int) -> None:
    """Set the options that accepted connections inherit; the receive buffer must be set before the handshake to widen the
    window.
    """
    bound.setblocking(False)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if family == socket.AF_INET6 and socket.has_dualstack_ipv6():
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # as Java: [::] takes IPv4 too
    for option, size in ((socket.SO_SNDBUF, send_buffer_bytes), (socket.SO_RCVBUF, receive_buffer_bytes)):
        if size != OS_DEFAULT:
            bound.setsockopt(socket.SOL_SOCKET, option, size)


async def _resolve(listener: Listener) -> tuple[int, tuple[str, int]]:
    """Return the address family and the address; as in Java, IPv4 is preferred where a name has both."""
    if not listener.host:
        if socket.has_dualstack_ipv6():
            return socket.AF_INET6, ("::", listener.port)
        return socket.AF_INET, ("0.0.0.0", listener.port)  # noqa: S104  (asked for)
    try:  # an address in numbers needs no thread of the loop's
        flags = socket.AI_PASSIVE | socket.AI_NUMERICHOST
        found = socket.getaddrinfo(listener.host, listener.port, type=socket.SOCK_STREAM, flags=flags)
    except socket.gaierror:
        found = await asyncio.get_running_loop().getaddrinfo(
            listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, (str(address[0]), listener.port)
