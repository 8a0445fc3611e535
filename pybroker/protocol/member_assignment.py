"""Reads what a member of a classic group of consumers is assigned, out of the bytes that its leader wrote."""

from __future__ import annotations

from pybroker.protocol.codec import DecodeError, decode
from pybroker.protocol.messages.consumer_protocol import ConsumerProtocolAssignment


def assigned(data: bytes | memoryview) -> list[tuple[str, int]]:
    """Return topics and partitions; an empty list when another kind of member wrote the bytes."""
    if len(data) < 2:
        return []
    version = min(int.from_bytes(data[:2], signed=True), 3)
    try:
        found = decode(ConsumerProtocolAssignment, version, memoryview(data), 2)
    except DecodeError:
        return []
    return [(topic.topic, index) for topic in found.assigned_partitions for index in topic.partitions]
