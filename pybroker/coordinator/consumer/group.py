"""A group of the consumer protocol (KIP-848): its members, what each shall own and what each owns.

Three numbers follow each other. The group's epoch counts whenever the members, what they subscribe to or the topics change. The
target assignment is made for one epoch of the group. A member's epoch says which target it has reached: it goes there by itself,
at the pace of its heartbeats, and nobody waits for the others.

States of a group, which follow from that
    Empty        no members
    Assigning    the target is of an older epoch than the group
    Reconciling  a member has not reached the target
    Stable       all have
    Dead         there is no such group

States of a member
    STABLE                 has reached its epoch
    UNREVOKED_PARTITIONS   has partitions to give up, and has not said yet that it did
    UNRELEASED_PARTITIONS  shall have partitions that others have not given up yet

    from \\ to    STABLE                 UNREVOKED                 UNRELEASED
    STABLE       new target, reached    must give some up         what it shall have is not free
    UNREVOKED    gave up, all is free   a newer target wants more gave up, not all is free
    UNRELEASED   the rest became free   a newer target            the rest is not free, or only a part

All of it is in the log; what is here changes by replaying records alone, but for the last two attributes.

Members of the classic protocol may be among the others, while a group changes from one protocol to the other; see
`migration/classic_members.py`.

Source: ConsumerGroup, ConsumerGroupMember, MemberState; KIP-848.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.coordinator.classic.group import Protocols
    from pybroker.metadata.image import ClusterImage

Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; no topic has none."""

Topics = Mapping[str, tuple[bytes, int]]
"""Id and number of partitions by the topic's name."""

NOTHING: Final[Assignment] = MappingProxyType({})

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
PROTOCOL_TYPE: Final = "consumer"


class ConsumerGroupState(Enum):
    """By Kafka's names, which are on the wire."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """By Kafka's numbers, which are in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ClassicSide(NamedTuple):
    """What a member that speaks the classic protocol said in its JoinGroup; its first protocol is the one it uses."""

    session_timeout_ms: int
    protocols: Protocols

    @property
    def protocol_name(self) -> str:
        """The protocol that the member is told."""
        return self.protocols[0][0]


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerMember:
    """One member, as it was at some moment. `previous_epoch` is taken from it too: the answer with the new one may be lost."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=lambda: NOTHING)
    pending_revocation: Assignment = field(default_factory=lambda: NOTHING)
    classic: ClassicSide | None = None
    """None for a member that speaks the consumer protocol."""

    def has_reached(self, target_epoch: int) -> bool:
        """Whether there is nothing left to do for it."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


class ConsumerGroup:
    """The state of one group.

    Attributes:
        owners: who has a partition, or has to give it up still.
        regexes: the topics that each subscribed regular expression matches.
        topics: what the group reads, as the last epoch saw it.
        image: the cluster's image that `topics` and `regexes` were compared with last; soft.
        revocation_epochs: the epoch of each member whose time to give up partitions is running; soft.
    """

    __slots__ = (
        "epoch",
        "group_id",
        "image",
        "members",
        "owners",
        "regexes",
        "revocation_epochs",
        "static_members",
        "target_epoch",
        "targets",
        "topics",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.target_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}  # member id by instance id
        self.targets: dict[str, Assignment] = {}
        self.owners: dict[tuple[bytes, int], str] = {}
        self.regexes: dict[str, frozenset[str]] = {}
        self.topics: dict[str, tuple[bytes, int]] = {}
        self.image: ClusterImage | None = None
        self.revocation_epochs: dict[str, int] = {}

    @property
    def state(self) -> ConsumerGroupState:
        """See the module."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.has_reached(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def member(self, member_id: str, instance_id: str | None) -> ConsumerMember | ErrorCode:
        """The member, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another one has taken the instance's place."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return self.members.get(member_id, ErrorCode.UNKNOWN_MEMBER_ID)

    def target(self, member_id: str) -> Assignment:
        """What the member shall own."""
        return self.targets.get(member_id, NOTHING)

    def assignor(self, members: Mapping[str, ConsumerMember], default: str) -> str:
        """The one that most of `members` want."""
        votes = Counter(member.assignor for member in members.values() if member.assignor is not None)
        return str(votes.most_common(1)[0][0]) if votes else default

    def check_epoch(self, member_id: str, epoch: int) -> ErrorCode:
        """Of a commit or fetch by a member: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH (classic: ILLEGAL_GENERATION) or NONE."""
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.epoch == epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

    def supports_classic(self, names: Collection[str]) -> bool:
        """Whether one of the protocols is common to all members of the classic protocol."""
        classic = [{name for name, _ in member.classic.protocols} for member in self.members.values() if member.classic]
        return any(all(name in one for one in classic) for name in names)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether somebody else still has a partition that the member shall have."""
        has = set(partitions_of(member.assigned))
        return any(one in self.owners for one in partitions_of(self.target(member.member_id)) if one not in has)

    def topic_names(self) -> dict[bytes, str]:
        """Of the topics that the group reads, by id."""
        return {topic_id: name for name, (topic_id, _) in self.topics.items()}

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        return any(
            topic in member.topic_names or (member.topic_regex and topic in self.regexes.get(member.topic_regex, ()))
            for member in self.members.values()
        )

    # Changes; by replay alone

    def put(self, member: ConsumerMember) -> None:
        """Take a member over as it is now."""
        self._disown(self.members.get(member.member_id))
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for partition in (*partitions_of(member.assigned), *partitions_of(member.pending_revocation)):
            self.owners[partition] = member.member_id

    def remove(self, member_id: str) -> None:
        """Forget a member."""
        member = self.members.pop(member_id, None)
        self._disown(member)
        if member is not None and member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _disown(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for partition in (*partitions_of(member.assigned), *partitions_of(member.pending_revocation)):
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]


def partitions_of(assignment: Assignment) -> Iterator[tuple[bytes, int]]:
    """One by one, with the topic's id."""
    return ((topic_id, partition) for topic_id, partitions in assignment.items() for partition in partitions)


def assignment_of(partitions: Iterator[tuple[bytes, int]]) -> dict[bytes, frozenset[int]]:
    """The inverse."""
    collected: dict[bytes, set[int]] = {}
    for topic_id, partition in partitions:
        collected.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(numbers) for topic_id, numbers in collected.items()}
