"""The messages that consumers of the classic protocol exchange through their group. The coordinator reads only what it needs.

The metadata of a consumer's protocol begins, in all versions so far, with

| field   | type            |
|---------|-----------------|
| version | int16           |
| topics  | array of string |

The coordinator looks at the rest, the partitions that a member owns, and at assignments only where members of the classic
protocol are in a KIP-848 group.

Source: ConsumerProtocolSubscription.json, ConsumerProtocol; ClassicGroup.computeSubscribedTopics.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Mapping
from typing import Final

from pybroker.protocol.codec import DecodeError, decode, encode
from pybroker.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

logger = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "consumer"

SUBSCRIPTION_BYTES_MAX: Final = 1 << 20

_VERSION_AND_COUNT: Final = struct.Struct(">hi")
_VERSION: Final = struct.Struct(">h")
_HIGHEST_VERSION: Final = 3
_LENGTH: Final = struct.Struct(">h")


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all members together, or None when the metadata of a member cannot be read."""
    topics: set[str] = set()
    for subscription_bytes in metadata:
        try:
            topics.update(_topics(subscription_bytes))
        except (struct.error, UnicodeDecodeError, ValueError) as error:
            logger.warning("The subscription of a consumer cannot be read: %s; the group counts as reading every topic", error)
            return None
    return frozenset(topics)


def _topics(metadata: bytes) -> list[str]:
    _, count = _VERSION_AND_COUNT.unpack_from(metadata, 0)
    position = _VERSION_AND_COUNT.size
    if count * _LENGTH.size > len(metadata):
        raise ValueError(f"{count} topics in {len(metadata)} bytes")
    topics = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(metadata, position)
        position += _LENGTH.size
        if not 0 <= length <= len(metadata) - position:
            raise ValueError(f"a topic of {length} bytes where {len(metadata) - position} are left")
        topics.append(metadata[position : position + length].decode())
        position += length
    return topics


def read_subscription(metadata: bytes, topics_max: int) -> ConsumerProtocolSubscription:
    """Read the subscription that a member sent in JoinGroup. It is read at once, so one that is larger than a record may be by
    default, or that has more than `topics_max` topics, is not read. Raises DecodeError.
    """
    count = _VERSION_AND_COUNT.unpack_from(metadata)[1] if len(metadata) >= _VERSION_AND_COUNT.size else 0
    if len(metadata) > SUBSCRIPTION_BYTES_MAX or count > topics_max:
        raise DecodeError(f"a subscription of {len(metadata)} bytes to {count} topics is too large")
    return decode(ConsumerProtocolSubscription, _version(metadata), memoryview(metadata), _VERSION.size)


def read_assignment(assignment: bytes) -> dict[str, list[int]]:
    """Read the assignment that a member got from SyncGroup, by topic; it is empty for empty bytes. Raises DecodeError."""
    if not assignment:
        return {}
    decoded = decode(ConsumerProtocolAssignment, _version(assignment), memoryview(assignment), _VERSION.size)
    return {topic.topic: list(topic.partitions) for topic in decoded.assigned_partitions}


def write_assignment(topics: Mapping[str, Iterable[int]], metadata: bytes) -> bytes:
    """Write the assignment of a member in the version of its own subscription, `metadata`. Raises DecodeError."""
    version = _version(metadata)
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=topic, partitions=sorted(partitions)) for topic, partitions in sorted(topics.items())
        ]
    )
    body = b"".join(encode(message, version))  # type: ignore[arg-type]  # there are no records in it, hence no late parts
    return _VERSION.pack(version) + body


def _version(data: bytes) -> int:
    """Return the version in which to read `data`: a newer version is read as the newest known one."""
    if len(data) < _VERSION.size:
        raise DecodeError("no version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"version {version}")
    return min(version, _HIGHEST_VERSION)
