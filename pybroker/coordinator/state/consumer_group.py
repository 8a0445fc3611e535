"""A group of the consumer protocol (KIP-848): its members, the target of each, and what each owns.

Three numbers follow each other. The group's epoch grows whenever the members, their subscriptions or the topics change. A target
assignment is made for an epoch of the group. A member's epoch shows which target it has reached: it moves there by itself,
at the pace of its heartbeats, and no member waits for another.

The state of a group follows from these numbers
    Empty        the group has no members
    Assigning    the target belongs to an older epoch than the group's
    Reconciling  a member has not reached the target
    Stable       all members have reached the target
    Dead         there is no such group

Every event that changes the state of a group, every request, and the states that a group may have afterwards: their first
letters, `-` for the same state. In the column `none` a group begins, or follows a classic group. D is the end of a group, which
may become a classic group:

    event                   none    Empty   Assigning   Reconciling   Stable
    ConsumerGroupHeartbeat  R S     - S     - D E R S   - A D E S     - A D E R
    JoinGroup                       - D     - D R S     - D S         - D R
    SyncGroup                       -       -           -             -
    Heartbeat                       -       -           -             -
    LeaveGroup                      -       - D E       - A D E       - A D E
    OffsetCommit                    -       -           -             -
    OffsetDelete                    -       -           -             -
    DeleteGroups                    D       -           -             -
    session ends                            D E         A D E         A D E
    time to join ends                       E           A
    time to sync ends                       E           A             A E
    time to revoke ends                     D E         A D E
    clean-up                        D

    A request makes the target for the epoch that it begins, so a group is Assigning only after members were removed.
    `tests/coordinator/test_state_tables.py` compares the table with what happens in stories.

The states of a member are in `consumer_member`.

All of a group is in the log. Only the replay of records changes its attributes, except the last two.

While a group changes from one protocol to the other, it also has members of the classic protocol; see
`consumer/classic_requests.py`.

Source: ConsumerGroup, ConsumerGroupMember, MemberState; KIP-848.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

from pybroker.coordinator.embedded_protocol import PROTOCOL_TYPE
from pybroker.coordinator.state.consumer_member import NOTHING, Assignment, ConsumerMember, partitions_of
from pybroker.coordinator.state.consumer_records import group_tombstones
from pybroker.coordinator.state.group import SINCE_COMMIT, GroupType, OffsetAge
from pybroker.model import NO_MEMBER_ID, MemberEpoch, group_epoch
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.result import CoordinatorRecord
    from pybroker.coordinator.state.group import Committer
    from pybroker.metadata.image import ClusterImage
    from pybroker.model import GroupId, MemberId


NO_CHANGES: Final = group_epoch(0)
"""The epoch of a group that is about to get its first member."""


class ConsumerGroupState(Enum):
    """The states of a group, by Kafka's names, which are on the wire."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroup:
    """The state of a group.

    Attributes:
        owners: the member that has a partition, or that still has to give it up.
        regexes: the topics that each subscribed regular expression matches.
        topics: the topics that the group reads, as they were in the last epoch.
        named_topics: the topics that members name, each with the number of these members.
        subscribed_regexes: the regular expressions that members subscribe with, each with the number of these members.
        image: the cluster's image with which `topics` and `regexes` were compared last; soft state.
        revocation_epochs: the epoch of each member whose time to give up partitions is running; soft state.
    """

    __slots__ = (
        "epoch",
        "group_id",
        "image",
        "members",
        "named_topics",
        "owners",
        "regexes",
        "revocation_epochs",
        "static_members",
        "subscribed_regexes",
        "target_epoch",
        "targets",
        "topics",
    )

    def __init__(self, group_id: GroupId) -> None:
        self.group_id = group_id
        self.epoch = NO_CHANGES
        self.target_epoch = NO_CHANGES
        self.members: dict[MemberId, ConsumerMember] = {}
        self.static_members: dict[str, MemberId] = {}  # member id by instance id
        self.targets: dict[MemberId, Assignment] = {}
        self.owners: dict[tuple[bytes, int], MemberId] = {}
        self.regexes: dict[str, frozenset[str]] = {}
        self.topics: dict[str, tuple[bytes, int]] = {}
        self.named_topics: dict[str, int] = {}
        self.subscribed_regexes: dict[str, int] = {}
        self.image: ClusterImage | None = None
        self.revocation_epochs: dict[MemberId, MemberEpoch] = {}

    @property
    def state(self) -> ConsumerGroupState:
        """Return the state of the group; see the module. The metrics' thread asks too, hence the copy."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.has_reached(self.target_epoch) for member in tuple(self.members.values())):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def member(self, member_id: MemberId, instance_id: str | None) -> ConsumerMember | ErrorCode:
        """Return the member, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another member has taken the place of the instance."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return self.members.get(member_id, ErrorCode.UNKNOWN_MEMBER_ID)

    # As a `Group`

    @property
    def type(self) -> GroupType:
        """Return the kind of the group, which is the same for every group of this class."""
        return GroupType.CONSUMER

    @property
    def state_name(self) -> str:
        """Return the name of the state, which is Kafka's name and on the wire."""
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        """Return the protocol type of consumers, because a KIP-848 group has no others."""
        return PROTOCOL_TYPE

    @property
    def is_unused(self) -> bool:
        """Return whether the group has no members."""
        return not self.members

    @property
    def offset_age(self) -> OffsetAge:
        """Return that age counts since the commit of each offset, in every state."""
        return SINCE_COMMIT

    def check_commit(self, committer: Committer) -> ErrorCode:
        """Return NONE for a member in its epoch, and for any client without an epoch while the group has no members."""
        if committer.generation_id < 0 and not self.members:
            return ErrorCode.NONE
        if committer.producer is not None:
            if committer.is_unknown:
                return ErrorCode.NONE
            code = self.check_epoch(committer.member_id, MemberEpoch(committer.generation_id))
            return ErrorCode.ILLEGAL_GENERATION if code is ErrorCode.STALE_MEMBER_EPOCH else code
        member = self.members.get(committer.member_id)
        if member is not None and member.classic is None and not committer.knows_epochs:
            return ErrorCode.UNSUPPORTED_VERSION
        return self.check_epoch(committer.member_id, MemberEpoch(committer.generation_id))

    def check_fetch(self, member_id: MemberId | None, member_epoch: MemberEpoch) -> ErrorCode:
        """Return NONE, or UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH if the member or its epoch is wrong."""
        if not member_id and member_epoch < 0:
            return ErrorCode.NONE
        return self.check_epoch(member_id or NO_MEMBER_ID, member_epoch)

    def check_offset_delete(self) -> ErrorCode:
        """Return NONE, because the broker knows which topics the members of a KIP-848 group read."""
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        """Return NONE if the group has no members, else NON_EMPTY_GROUP."""
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the records that remove the group and its members, but not its offsets."""
        return group_tombstones(self.group_id, self.members, self.regexes)

    # Members

    def target(self, member_id: MemberId) -> Assignment:
        """Return the target of the member."""
        return self.targets.get(member_id, NOTHING)

    def assignor(self, members: Mapping[MemberId, ConsumerMember], default: str) -> str:
        """Return the assignor that most of `members` ask for."""
        votes = Counter(member.assignor for member in members.values() if member.assignor is not None)
        return str(votes.most_common(1)[0][0]) if votes else default

    def check_epoch(self, member_id: MemberId, epoch: MemberEpoch) -> ErrorCode:
        """Return the code of a commit or fetch by a member: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, which is ILLEGAL_GENERATION
        for a member of the classic protocol, or NONE.
        """
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.epoch == epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

    def supports_classic(self, names: Collection[str]) -> bool:
        """Return whether all members of the classic protocol know any of the protocols."""
        names_by_member = [{name for name, _ in member.classic.protocols} for member in self.members.values() if member.classic]
        return any(all(name in member_names for member_names in names_by_member) for name in names)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Return whether another member still has a partition of the member's target."""
        assigned = set(partitions_of(member.assigned))
        return any(
            partition in self.owners for partition in partitions_of(self.target(member.member_id)) if partition not in assigned
        )

    def topic_names(self) -> dict[bytes, str]:
        """Return the names of the topics that the group reads, by id."""
        return {topic_id: name for name, (topic_id, _) in self.topics.items()}

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member reads the topic."""
        return topic in self.named_topics or any(topic in self.regexes.get(regex, ()) for regex in self.subscribed_regexes)

    # Changes; by replay alone

    def put(self, member: ConsumerMember) -> None:
        """Replace a member, or add it, as it is now."""
        before = self.members.get(member.member_id)
        self._disown(before)
        self._count_subscriptions(before, member)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for partition in (*partitions_of(member.assigned), *partitions_of(member.pending_revocation)):
            self.owners[partition] = member.member_id

    def remove(self, member_id: MemberId) -> None:
        """Remove a member."""
        member = self.members.pop(member_id, None)
        self._disown(member)
        self._count_subscriptions(member, None)
        if member is not None and member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _count_subscriptions(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """Follow a change of a member, which most changes of a member leave out."""
        names_before, regex_before = ((), None) if before is None else (before.topic_names, before.topic_regex)
        names, regex = ((), None) if after is None else (after.topic_names, after.topic_regex)
        if names is not names_before:
            _recount(self.named_topics, names_before, names)
        if regex != regex_before:
            _recount(self.subscribed_regexes, [regex_before] if regex_before else (), [regex] if regex else ())

    def _disown(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for partition in (*partitions_of(member.assigned), *partitions_of(member.pending_revocation)):
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]


def _recount(counts: dict[str, int], before: Iterable[str], after: Iterable[str]) -> None:
    for one in after:
        counts[one] = counts.get(one, 0) + 1
    for one in before:
        if counts[one] > 1:
            counts[one] -= 1
        else:
            del counts[one]
