"""The opaque bytes that consumers put into JoinGroup and SyncGroup; each begins with its version as an int16.

Kafka reads a newer version as the newest of these and ignores the bytes that are left; `codec.decode` refuses them.

Source: clients/src/main/resources/common/message/ConsumerProtocol*.json, ConsumerProtocol.
"""

from __future__ import annotations

from pybroker.protocol.schema import Message, Struct, field
from pybroker.protocol.wire import Int32


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = field()
    partitions: list[Int32] = field()


class ConsumerProtocolSubscription(Message, versions="0-3", flexible="none"):
    """The topics that the member wants to read: the metadata of JoinGroup."""

    topics: list[str] = field()
    user_data: bytes | None = field(default=None)
    owned_partitions: list[TopicPartition] = field("1+", ignorable=True)
    generation_id: Int32 = field("2+", default=-1, ignorable=True)  # in which it got the owned partitions
    rack_id: str | None = field("3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3", flexible="none"):
    """The partitions that the member is to read: the assignment of SyncGroup."""

    assigned_partitions: list[TopicPartition] = field()
    user_data: bytes | None = field(default=None)
