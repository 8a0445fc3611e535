"""What consumers tell each other through their group: read only as far as the coordinator needs it.

The metadata of a consumer's protocol begins, in all versions so far, with

| field   | type            |
|---------|-----------------|
| version | int16           |
| topics  | array of string |

and what follows is not looked at.

Source: ConsumerProtocolSubscription.json, ConsumerProtocol; ClassicGroup.computeSubscribedTopics.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable
from typing import Final

logger = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "consumer"

_VERSION_AND_COUNT: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members together; None when one of them cannot be read."""
    topics: set[str] = set()
    for one in metadata:
        try:
            topics.update(_topics(one))
        except (struct.error, UnicodeDecodeError, ValueError) as error:
            logger.warning("A consumer's subscription cannot be read: %s", error)
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
