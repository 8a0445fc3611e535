"""Reads brokers and topics out of Metadata v2 by hand: the codec's import costs more than a whole `kafka-topics --list`."""

from __future__ import annotations

import struct

from pybroker.client.errors import ClientError
from pybroker.client.frames import DAMAGE, Frames, Reader

METADATA, VERSION = 3, 2
ALL_TOPICS = struct.pack(">i", -1)


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


def metadata(connection: Frames, topics: bytes = ALL_TOPICS) -> Metadata:
    """Request brokers and topics; `topics` is the encoded list. Raises ClientError."""
    try:
        return parsed(connection.ask(METADATA, version=VERSION, body=topics))
    except DAMAGE as error:
        raise ClientError(f"the response cannot be read: {error}") from error


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
