"""Names and ids that every layer shares.

A declared message (`protocol/messages/`) has the types of the wire. A handler, or what replays a record, makes these types of
them.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final, NamedTuple, NewType, Self, overload

TopicId = NewType("TopicId", bytes)
"""A topic's UUID as its 16 bytes on the wire. KIP-516."""

GroupId = NewType("GroupId", str)
"""The name of a group, which its members choose."""

MemberId = NewType("MemberId", str)
"""The id of a group's member; empty while the member has none."""

GenerationId = NewType("GenerationId", int)
"""The number of a classic group's rebalances, which a member's requests name; negative from a client that is no member."""

MemberEpoch = NewType("MemberEpoch", int)
"""The epoch of a KIP-848 group that a member has reached; 0, -1 and -2 in requests that join or leave."""

GroupEpoch = NewType("GroupEpoch", MemberEpoch)
"""The number of changes of a KIP-848 group, or the number that a target was made for. A member that reached it has it too."""

ProducerId = NewType("ProducerId", int)
"""The number of an idempotent producer. KIP-98."""

ProducerEpoch = NewType("ProducerEpoch", int)
"""The generation of a producer with its id, which fences older ones. KIP-98."""

CoordinatorEpoch = NewType("CoordinatorEpoch", int)
"""The generation of a transaction coordinator, which fences older ones; in transaction markers. KIP-98."""

BrokerId = NewType("BrokerId", int)
"""The number of a broker, which Kafka also calls node id, and replica id where it is one of a partition's brokers."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""The generation of a partition's leader. KIP-101."""

if TYPE_CHECKING:

    class Offset(int):
        """The place of a record in its partition. An offset and a number make an offset; two offsets have a distance."""

        def __new__(cls, value: int, /) -> Self: ...  # noqa: D102
        def __add__(self, value: int, /) -> Offset: ...
        @overload
        def __sub__(self, value: Offset, /) -> int: ...  # type: ignore[overload-overlap]
        @overload
        def __sub__(self, value: int, /) -> Offset: ...
        def __sub__(self, value: int, /) -> int: ...

else:
    Offset = NewType("Offset", int)  # what costs nothing where it is only named

NO_MEMBER_ID: Final = MemberId("")
ZERO_TOPIC_ID: Final = TopicId(bytes(16))
NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)
PRODUCER_EPOCH_MAX: Final = ProducerEpoch(2**15 - 1)
NO_BROKER_ID: Final = BrokerId(-1)
NO_LEADER_EPOCH: Final = LeaderEpoch(-1)
NO_COORDINATOR_EPOCH: Final = CoordinatorEpoch(-1)
NO_MEMBER_EPOCH: Final = MemberEpoch(-1)
NO_GROUP_EPOCH: Final = GroupEpoch(NO_MEMBER_EPOCH)
NO_OFFSET: Final = Offset(-1)
OFFSET_END: Final = Offset(2**63 - 1)
FIRST_OFFSET: Final = Offset(0)
LAST_OFFSET: Final = Offset((1 << 63) - 1)

new_tuple: Final = tuple.__new__
"""Makes a tuple without calling its class. Only modules whose Python text is compiled use it, where `new_tuple` of
`protocol/_tuples.pxd` takes its place, and saves a sixth of a Produce (docs/design/cost.md).
"""


def group_epoch(number: int) -> GroupEpoch:
    """Return the number as the epoch of a group."""
    return GroupEpoch(MemberEpoch(number))


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts by name, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_id_text(topic_id: TopicId) -> str:
    """Return Kafka's text form: 22 characters of URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def topic_id_parse(text: str) -> TopicId:
    """Parse the text form of `topic_id_text`. Raises ValueError when the text is not a UUID in that form."""
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"not a topic id: {text!r}") from error
    if len(raw) != 16:
        raise ValueError(f"not a topic id: {text!r}")
    return TopicId(raw)
