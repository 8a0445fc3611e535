"""The last requests of clients, for tests to look at."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.api.registry import APIS
from pybroker.faults.about import About, NameOf, about
from pybroker.protocol.codec import DecodeError, decode, decode_request_header, request_class

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.network.context import ConnectionContext, EncodedResponse, RequestHandler

LENGTH: Final = 10_000
"""How many requests are kept: some megabytes."""

OWN: Final = "pybroker.testing"
"""The client id of a test that looks into a broker, which is no client of it."""

NOTHING: Final = About((), frozenset(), (), ())


class SeenRequest(NamedTuple):
    """A request of a client.

    Attributes:
        api: Kafka's name of the API, as `Produce`.
        connection: a number that no other connection to the broker has.
        topics, partitions, groups, transactional_ids: those that the request names.
    """

    api: str
    version: int
    client_id: str
    connection: int
    topics: tuple[str, ...]
    partitions: frozenset[tuple[str, int]]
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]


def seen(connection: ConnectionContext, frame: memoryview, name_of: NameOf) -> SeenRequest | None:
    """Return what a frame asks for; None if it is a test's own, or cannot be read, which the broker finds out by itself."""
    try:
        header, at = decode_request_header(frame)
        api = APIS[header.api_key]
        if header.client_id == OWN:
            return None
        named = NOTHING
        if api.lowest <= header.api_version <= api.highest:
            named = about(decode(request_class(api.key), header.api_version, frame, at), name_of)
    except (DecodeError, KeyError):
        return None
    return SeenRequest(api.name, header.api_version, header.client_id or "", connection.connection_id, *named)


class Trail:
    """The last requests, oldest first, over all lives of a broker."""

    def __init__(self, length: int = LENGTH) -> None:
        self._seen: deque[SeenRequest] = deque(maxlen=length)

    def all(self) -> list[SeenRequest]:
        """Return the requests."""
        return [*self._seen]

    def clear(self) -> None:
        """Forget the requests."""
        self._seen.clear()

    def watching(self, handler: RequestHandler, name_of: NameOf) -> RequestHandler:
        """Return a handler that remembers each request and then hands it to `handler`."""

        def handle(connection: ConnectionContext, frame: memoryview) -> EncodedResponse | Future[EncodedResponse]:
            if (one := seen(connection, frame, name_of)) is not None:
                self._seen.append(one)
            return handler(connection, frame)

        return handle
