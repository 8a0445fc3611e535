"""Counts what each client does: its APIs with their versions, its bytes, and the records that were converted for it.

Idea
    A connection counts its requests in a row of one API in one version, and its bytes. It is read when another version or API
    follows, at intervals, and when it is lost. So a request costs two comparisons and an addition.

    A client is a client id, a software and a host: the connections of one program on one machine are one client.

Bound
    The clients that were seen last are kept, `CLIENTS_MAX` of them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.network.connection import take_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pybroker.network._connection_python import ConnectionCore
    from pybroker.network.context import ConnectionContext

CLIENTS_MAX: Final = 1_000
NAME_LENGTH_MAX: Final = 255
"""The characters that are kept of a client id and of the names of a software; a client may send 32,767."""


class Name(NamedTuple):
    """The properties by which clients are distinguished. Software and its version are empty until KIP-511's ApiVersions."""

    client_id: str
    software_name: str
    software_version: str
    host: str


class Client:
    """The counts of one client.

    Attributes:
        is_kept: whether it is among those that were seen last.
        connections: those that are open now.
        connections_made: those of which a request was counted.
        first_seen_ms, last_seen_ms: times since the epoch, of some request in the last interval.
        requests: their numbers by API key and version.
        down_converted: the records that were converted for it because it fetches an old format.
    """

    __slots__ = (
        "bytes_in", "bytes_out", "connections", "connections_made", "down_converted", "first_seen_ms", "is_kept", "last_seen_ms",
        "name", "requests",
    )  # fmt: skip

    def __init__(self, name: Name, now_ms: int) -> None:
        self.name, self.is_kept = name, True
        self.connections = self.connections_made = 0
        self.first_seen_ms = self.last_seen_ms = now_ms
        self.requests: dict[tuple[int, int], int] = {}
        self.bytes_in = self.bytes_out = self.down_converted = 0

    def by_api(self) -> dict[int, dict[int, int]]:
        """Return the numbers of requests by API key, and by version within that, in their order."""
        found: dict[int, dict[int, int]] = {}
        for (key, version), count in sorted(self.requests.items()):
            found.setdefault(key, {})[version] = count
        return found

    def add(self, other: Client) -> None:
        """Add the counts of an earlier life of the broker."""
        self.connections_made += other.connections_made
        self.first_seen_ms = min(self.first_seen_ms, other.first_seen_ms)
        self.last_seen_ms = max(self.last_seen_ms, other.last_seen_ms)
        for use, count in other.requests.items():
            self.requests[use] = self.requests.get(use, 0) + count
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.down_converted += other.down_converted


class Clients:
    """The clients of one broker, the one that was seen last at the end. Belongs to the loop.

    `now_ms` returns the time since the epoch.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self._clients: OrderedDict[Name, Client] = OrderedDict()

    def all(self) -> list[Client]:
        """Return the clients, the one that was seen last at the end."""
        return [*self._clients.values()]

    def clear(self) -> None:
        """Forget all clients. Connections that are open count for new ones."""
        for client in self._clients.values():
            client.is_kept = False
        self._clients.clear()

    def add_earlier(self, clients: Iterable[Client]) -> None:
        """Add the clients of an earlier life of the broker, of which the one that was seen last comes last."""
        now, self._clients = self._clients, OrderedDict((one.name, one) for one in clients)
        for client in self._clients.values():
            client.connections = 0
        for name, client in now.items():
            if (earlier := self._clients.pop(name, None)) is not None:
                client.add(earlier)
            self._keep(client)
        self._forget()

    def changed(self, connection: ConnectionContext, route: Any, version: int, client_id: str | None) -> None:
        """Note that the requests of a connection are of another API or another version from now on.

        `route` is what the dispatcher knows of the API.
        """
        if connection.used and connection.holder is not None:
            self._count_uses(connection)
        connection.used, connection.used_route, connection.used_version = 0, route, version
        if connection.client_id is None:
            connection.client_id = (client_id or "")[:NAME_LENGTH_MAX]

    def look(self, connection: ConnectionCore) -> None:
        """Count what a connection has done since the last look."""
        context = connection.context
        if not context.used and context.client is None:
            return
        if context.used:
            self._count_uses(context)
            context.client.last_seen_ms = self.now_ms()
            self._clients.move_to_end(context.client.name)
        client = context.client
        bytes_in, bytes_out = take_bytes(connection)
        client.bytes_in += bytes_in
        client.bytes_out += bytes_out
        client.down_converted += context.down_converted
        context.down_converted = 0

    def lost(self, connection: ConnectionCore) -> None:
        """Count what a connection has done that is gone."""
        self.look(connection)
        client, connection.context.client = connection.context.client, None
        if client is not None:
            client.connections -= 1

    def _count_uses(self, connection: ConnectionContext) -> None:
        client = connection.client
        if client is None or not client.is_kept:
            client = self._client_of(connection)
        use = int(connection.used_route.api.key), connection.used_version
        client.requests[use] = client.requests.get(use, 0) + connection.used
        connection.used = 0

    def _client_of(self, connection: ConnectionContext) -> Client:
        """Return the client of a connection for which none is counted, or one that was forgotten."""
        name = Name(
            connection.client_id or "",
            connection.client_software_name[:NAME_LENGTH_MAX],
            connection.client_software_version[:NAME_LENGTH_MAX],
            connection.peer_host,
        )
        client = self._clients.get(name)
        if client is None:
            client = Client(name, self.now_ms())
            self._keep(client)
            self._forget()
        client.connections += 1
        client.connections_made += 1
        if connection.client is not None:
            connection.client.connections -= 1
        connection.client, connection.client_id = client, name.client_id
        return client

    def _keep(self, client: Client) -> None:
        self._clients[client.name] = client

    def _forget(self) -> None:
        while len(self._clients) > CLIENTS_MAX:
            self._clients.popitem(last=False)[1].is_kept = False
