"""Reads brokers and topics out of Metadata v2 by hand: the codec's import costs more than a whole `kafka-topics --list`."""

from __future__ import annotations

import struct

from pybroker.tools.connection import Connection  # noqa: TC001  `typing` is slow to import
from pybroker.tools.errors import UnreachableError

METADATA, VERSION = 3, 2
ALL_TOPICS = struct.pack(">i", -1)

DAMAGE = (struct.error, UnicodeDecodeError)
"""The errors that reading raises when the bytes are damaged."""

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


class Broker:
    """The advertised address of a broker."""

    __slots__ = ("host", "node_id", "port", "rack")

    def __init__(self, node_id: int, host: str, port: int, rack: str | None) -> None:
        self.node_id, self.host, self.port, self.rack = node_id, host, port, rack

    def __str__(self) -> str:
        """Format the broker as Kafka 3.9 prints a node."""
        return f"{self.host}:{self.port} (id: {self.node_id} rack: {'null' if self.rack is None else self.rack})"


class Metadata:
    """The brokers, the id and the topics of the cluster."""

    __slots__ = ("brokers", "cluster_id", "topics")

    def __init__(self, brokers: list[Broker], cluster_id: str | None, topics: list[tuple[str, bool]]) -> None:
        self.brokers, self.cluster_id = brokers, cluster_id
        self.topics = topics
        """Names, and whether the topic is internal."""


class Reader:
    """Reads a response front to back. Raises struct.error when it is too short."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def int16(self) -> int:
        """Read the next two bytes."""
        (value,) = _INT16.unpack_from(self._data, self._position)
        self._position += 2
        return int(value)

    def int32(self) -> int:
        """Read the next four bytes."""
        (value,) = _INT32.unpack_from(self._data, self._position)
        self._position += 4
        return int(value)

    def byte(self) -> int:
        """Read the next byte."""
        return self.take(1)[0]

    def string(self) -> str | None:
        """Read a length and that many bytes; -1 means None."""
        size = self.int16()
        return None if size < 0 else self.take(size).decode()

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        part = self._data[self._position : self._position + size]
        if len(part) < size:
            raise struct.error(f"{size} bytes are needed, {len(part)} are left")
        self._position += size
        return part


def metadata(connection: Connection, topics: bytes = ALL_TOPICS) -> Metadata:
    """Request brokers and topics; `topics` is the encoded list. Raises UnreachableError."""
    try:
        return parsed(connection.ask(METADATA, version=VERSION, body=topics))
    except DAMAGE as error:
        raise UnreachableError(f"the response cannot be read: {error}") from error


def parsed(response: bytes) -> Metadata:
    """Parse a response v2. Raises struct.error."""
    reader = Reader(response)
    brokers = [Broker(reader.int32(), reader.string() or "", reader.int32(), reader.string()) for _ in range(reader.int32())]
    cluster_id = reader.string()
    reader.int32()  # the controller
    topics = []
    for _ in range(reader.int32()):
        error, name, is_internal = reader.int16(), reader.string() or "", reader.byte() != 0
        if not error:
            topics.append((name, is_internal))
        for _ in range(reader.int32()):
            reader.take(10)  # error, index, leader
            for _ in range(2):  # replicas, then those in sync
                reader.take(4 * reader.int32())
    return Metadata(brokers, cluster_id, topics)
