"""The types that the network hands to the request handler, and those that the handler returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pybroker.network.limits import host_and_port
from pybroker.network.state import ContextState
from pybroker.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.protocol.parts import Part
    from pybroker.security.sasl.login import Login


class ProtocolViolation(Exception):  # noqa: N818  (it is the peer's doing)
    """The peer broke the protocol: the broker logs one line at info with the reason, and closes the connection."""


class RequestHolder(Protocol):
    """The object that keeps the memory of the request in hand, and knows what came behind it: the connection."""

    @property
    def has_next_request(self) -> bool:
        """Whether the peer has sent more behind the request in hand, if only a part of the next request."""

    def hold_request(self, size: int) -> bool:
        """Keep the memory of the request in hand beyond the handler's return, until `release_request`, and count it.

        Returns whether the bytes remain where they are. If not, the handler must copy those that it still needs before it
        returns; they are `size` bytes, which are counted. Call it at most once for a request, which is then parked.
        """

    def release_request(self) -> None:
        """Let the memory go. The connection may be gone by then."""


class ConnectionContext(ContextState):
    """The two ends of a connection. Lives as long as the connection; one object for all of its requests.

    `client_software_name` and `client_software_version` are empty until ApiVersions v3+ names them.
    `advertised_host` and `advertised_port` are the address that the client gets where the configuration advertises none: by
    default the address that it has connected to. `client_id` is that of the first request, and `client` is where its requests are
    counted; both are None before. `down_converted` records were converted for it and are not yet counted there. `holder` is the
    connection while it is open. `on_lost` ends the work in hand when the connection is lost, if the work wants that. `principal`
    is the identity of the client as `TYPE:NAME`, ANONYMOUS until the client has authenticated. `login` is that of a client at a
    SASL listener, None at others.
    """

    __slots__ = (
        "advertised_host",
        "advertised_port",
        "client",
        "client_id",
        "client_software_name",
        "client_software_version",
        "connection_id",
        "down_converted",
        "holder",
        "is_lost",
        "listener_name",
        "local_host",
        "local_port",
        "login",
        "on_lost",
        "peer_host",
        "peer_port",
        "principal",
        "security_protocol",
    )

    def __init__(
        self,
        *,
        connection_id: int,
        listener_name: str = "PLAINTEXT",
        peer_host: str = "",
        peer_port: int = 0,
        local_host: str = "",
        local_port: int = 0,
        security_protocol: str = "PLAINTEXT",
    ) -> None:
        super().__init__()
        self.connection_id = connection_id
        self.listener_name = listener_name
        self.peer_host = peer_host
        self.peer_port = peer_port
        self.local_host = local_host
        self.local_port = local_port
        self.advertised_host = local_host
        self.advertised_port = local_port
        self.security_protocol = security_protocol
        self.principal = ANONYMOUS
        self.login: Login | None = None
        self.holder: RequestHolder | None = None
        self.is_lost = False
        self.on_lost: Callable[[], None] | None = None
        self.client: Any = None
        self.client_id: str | None = None
        self.client_software_name = ""
        self.client_software_version = ""
        self.down_converted = 0

    @property
    def has_next_request(self) -> bool:
        """Whether the peer has sent more behind the request in hand, which will wait if that request is parked."""
        return self.holder is not None and self.holder.has_next_request

    def lose(self) -> None:
        """Note that the connection is lost, and end the work in hand."""
        self.is_lost, self.holder, self.repeated = True, None, None
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            on_lost()

    def __str__(self) -> str:
        return f"{host_and_port(self.peer_host, self.peer_port)} on {self.listener_name}#{self.connection_id}"


class Outgoing:
    """A response that is more than one bytes object. Owned by the network from the moment the handler returns it.

    `parts` are sent in order, size prefix included; `size` is their sum in bytes. `on_sent` is called exactly once: when the last
    byte was handed to the transport and the transport is below its high water mark, or when the connection is lost.
    `close_after`: the connection is closed once this has been sent.
    """

    __slots__ = ("close_after", "on_sent", "parts", "size")

    def __init__(
        self, parts: list[Part], size: int, on_sent: Callable[[], None] | None = None, *, close_after: bool = False
    ) -> None:
        self.parts = parts
        self.size = size
        self.on_sent = on_sent
        self.close_after = close_after

    def discard(self, first_part: int = 0) -> None:
        """Close the parts from index `first_part` on and call `on_sent`: the connection is gone."""
        for part in self.parts[first_part:]:
            if not isinstance(part, bytes | bytearray | memoryview):
                part.close()
        on_sent, self.on_sent = self.on_sent, None
        if on_sent is not None:
            on_sent()


EncodedResponse = Outgoing | bytes | None
"""None: the request has no response (acks=0)."""

RequestHandler: TypeAlias = "Callable[[ConnectionContext, memoryview], EncodedResponse | Future[EncodedResponse]]"
"""Called with one request without its size prefix. The memoryview is writable and borrowed until the call returns, also when a
Future (a parked request) is returned, unless the handler has the connection hold it. Raises no exception but ProtocolViolation.
"""
