"""The messages that consumers of the classic protocol exchange through their group. The coordinator reads only what it needs.

The metadata of a consumer's protocol begins, in all versions so far, with

| field   | type            |
|---------|-----------------|
| version | int16           |
| topics  | array of string |

The coordinator looks at the rest, the partitions that a member owns, and at assignments only where members of the classic
protocol are in a KIP-848 group.

A member may send 100 MB, and a group may have many members. The broker does not read metadata that would take the loop too long:
it counts as damaged. Kafka has no such bounds.

Source: ConsumerProtocolSubscription.json, ConsumerProtocol; ClassicGroup.computeSubscribedTopics.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from pybroker.protocol.codec import DecodeError, decode, encode
from pybroker.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

Message = TypeVar("Message", ConsumerProtocolSubscription, ConsumerProtocolAssignment)

PROTOCOL_TYPE: Final = "consumer"

SUBSCRIPTION_BYTES_MAX: Final = 1 << 20

_VERSION_AND_COUNT: Final = struct.Struct(">hi")
_VERSION: Final = struct.Struct(">h")
_HIGHEST_VERSION: Final = 3
_LENGTH: Final = struct.Struct(">h")

NAMES_MAX: Final = 20_000
"""The number of topics' names that are read for a group at once; each takes about 0.3 us. Those of members with the same
subscription are read once.
"""

NAME_BYTES_MAX: Final = 2 << 20
"""The bytes that these names may have."""

COMPARED_BYTES_MAX: Final = 32 << 20
"""The bytes of all members that are compared with subscriptions that were read already: about 0.1 ms for each MB."""

_KEPT_SUBSCRIPTIONS: Final = 8

ELEMENTS_MAX: Final = 20_000
"""The number of topics and partitions that the subscription, or the assignment, of one member may have in a KIP-848 group."""

BYTES_MAX: Final = 8 << 20
"""The size that they may have there."""


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all members together, or None when the metadata of a member cannot be read, or is too much."""
    topics: set[str] = set()
    known: tuple[bytes, ...] = ()  # the lists of topics that were read: most members subscribe to the same ones
    known_size = compared_size = 0
    names_left, bytes_left = NAMES_MAX, NAME_BYTES_MAX
    try:
        for subscription_bytes in metadata:
            compared_size += known_size
            if compared_size > COMPARED_BYTES_MAX:
                raise ValueError(f"the members together list topics in more than {COMPARED_BYTES_MAX} bytes")
            if subscription_bytes.startswith(known, _VERSION.size):
                continue
            names, end = _topics(subscription_bytes, names_left=names_left, bytes_left=bytes_left)
            topics.update(names)
            names_left -= len(names)
            bytes_left -= end
            if len(known) < _KEPT_SUBSCRIPTIONS:
                known = (*known, subscription_bytes[_VERSION.size : end])
                known_size += end
    except (struct.error, UnicodeDecodeError, ValueError):
        return None
    return frozenset(topics)


def _topics(metadata: bytes, *, names_left: int, bytes_left: int) -> tuple[list[str], int]:
    """Return the topics, and where the list of them ends. More than `names_left` or `bytes_left` are an error."""
    _, count = _VERSION_AND_COUNT.unpack_from(metadata, 0)
    position = _VERSION_AND_COUNT.size
    if count * _LENGTH.size > len(metadata):
        raise ValueError(f"{count} topics in {len(metadata)} bytes")
    if count > names_left:
        raise ValueError(f"the members together list more than {NAMES_MAX} topics")
    topics = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(metadata, position)
        position += _LENGTH.size
        if not 0 <= length <= len(metadata) - position:
            raise ValueError(f"a topic of {length} bytes where {len(metadata) - position} are left")
        if position + length > bytes_left:
            raise ValueError(f"the members together list topics in more than {NAME_BYTES_MAX} bytes")
        topics.append(metadata[position : position + length].decode())
        position += length
    return topics, position


def read_subscription(metadata: bytes, topics_max: int = ELEMENTS_MAX) -> ConsumerProtocolSubscription:
    """Read the subscription that a member sent in JoinGroup. It is read at once, so one that is larger than a record may be by
    default, or that has more than `topics_max` topics, is not read. Raises DecodeError.
    """
    count = _VERSION_AND_COUNT.unpack_from(metadata)[1] if len(metadata) >= _VERSION_AND_COUNT.size else 0
    if len(metadata) > SUBSCRIPTION_BYTES_MAX or count > topics_max:
        raise DecodeError(f"a subscription of {len(metadata)} bytes to {count} topics is too large")
    return _decoded(ConsumerProtocolSubscription, metadata)


def read_assignment(assignment: bytes) -> dict[str, list[int]]:
    """Read the assignment that a member got from SyncGroup, by topic; it is empty for empty bytes. Raises DecodeError."""
    if not assignment:
        return {}
    decoded = _decoded(ConsumerProtocolAssignment, assignment)
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


def _decoded(cls: type[Message], data: bytes) -> Message:
    if len(data) > BYTES_MAX:
        raise DecodeError(f"{len(data)} bytes")
    return decode(cls, _version(data), memoryview(data), _VERSION.size, elements_max=ELEMENTS_MAX)


def _version(data: bytes) -> int:
    """Return the version in which to read `data`: a newer version is read as the newest known one."""
    if len(data) < _VERSION.size:
        raise DecodeError("no version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"version {version}")
    return min(version, _HIGHEST_VERSION)
