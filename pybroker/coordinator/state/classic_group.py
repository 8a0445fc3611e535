"""A group of the classic protocol: its members, and the state of the group.

States
    Empty                the group has no members, but may have offsets
    PreparingRebalance   members are asked to join; their requests wait until all members have joined, or the time is up
    CompletingRebalance  all members know the new generation; the followers wait for the assignment by the leader
    Stable               every member has an assignment
    Dead                 the group was removed: no request finds it any more, and its timers do nothing

    from \\ to            Empty              PreparingRebalance       CompletingRebalance   Stable           Dead
    Empty                -                  first member joins       -                     -                deleted, expired
    PreparingRebalance   all are gone       -                        all joined, time up   -                became KIP-848's
    CompletingRebalance  -                  join, leave, death,      -                     leader's sync    became KIP-848's
                                            no sync in time                                is durable
    Stable               -                  join, leave, death       -                     -                became KIP-848's

Every event that changes the state of a group, every request, and the states that a group may have afterwards: their first
letters, `-` for the same state. In the column `none` a group begins, or follows a KIP-848 group. D is the end of a group, which
may become a KIP-848 group:

    event                   none    Empty   PreparingRebalance   CompletingRebalance   Stable
    JoinGroup               E P S   - P     - C                  - P                   - C P
    SyncGroup                       -       -                    -                     -
    Heartbeat                       -       -                    -                     -
    LeaveGroup              S       -       - C E                - E P                 - E P
    OffsetCommit            E       -       -                    -                     -
    OffsetDelete                    -       -                    -                     -
    DeleteGroups                    D       -                    -                     -
    ConsumerGroupHeartbeat  S       - D     - D                  - D                   - D
    session ends            S               C E                  P                     E P
    time to join ends                       C E
    time to sync ends                                            E P                   P
    time to revoke ends     S
    records durable                                              S                     C P
    records refused                                              P
    clean-up                        D
    loaded                                                                             P

    Where a cell has more than one state, the members decide: the last one to join, leave or die completes a rebalance (C), or
    leaves the group Empty. The records of a SyncGroup are the leader's assignment; those of a KIP-848 group make it a classic
    group, which may have to rebalance. Loading may find too many members in a group.

What each request gets. An unknown member always gets UNKNOWN_MEMBER_ID, a replaced instance FENCED_INSTANCE_ID, another
generation ILLEGAL_GENERATION:

    request        Empty               PreparingRebalance     CompletingRebalance         Stable
    JoinGroup new  rebalance begins    waits                  rebalance begins again      rebalance begins
    JoinGroup old  UNKNOWN_MEMBER_ID   waits                  the generation again;       the generation again; with
                                                              with other metadata a       other metadata or from the
                                                              rebalance begins again      leader a rebalance begins
    SyncGroup      UNKNOWN_MEMBER_ID   REBALANCE_IN_PROGRESS  waits for the leader        the assignment
    Heartbeat      UNKNOWN_MEMBER_ID   REBALANCE_IN_PROGRESS  NONE                        NONE
    LeaveGroup     UNKNOWN_MEMBER_ID   removed                removed, rebalance begins   removed, rebalance begins
    OffsetCommit   UNKNOWN_MEMBER_ID   taken                  REBALANCE_IN_PROGRESS       taken
    ... without    taken               UNKNOWN_MEMBER_ID      UNKNOWN_MEMBER_ID           UNKNOWN_MEMBER_ID
        a member
    OffsetDelete   done                if not subscribed      if not subscribed           if not subscribed
    DeleteGroups   done                NON_EMPTY_GROUP        NON_EMPTY_GROUP             NON_EMPTY_GROUP

    OffsetDelete knows the topics that consumers subscribe to (GROUP_SUBSCRIBED_TO_TOPIC); other groups with members get
    NON_EMPTY_GROUP. `tests/coordinator/test_state_tables.py` reads all three tables and compares them with what happens in the
    stories.

What is kept
    The log holds the group as it was after its last complete rebalance, and when it became Empty. Members that are joining,
    timers and requests that wait are soft state. After a restart the group has the members of the last generation, with new
    timers; members that have joined since then get UNKNOWN_MEMBER_ID and join again.

Source: kafka.coordinator.group ClassicGroup, ClassicGroupState; KIP-345, KIP-394.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pybroker.coordinator.embedded_protocol import PROTOCOL_TYPE, subscribed_topics
from pybroker.coordinator.state.group import NEVER_OLD, SINCE_COMMIT, GroupType, OffsetAge
from pybroker.coordinator.state.records import group_tombstone
from pybroker.model import NO_MEMBER_ID, GenerationId
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.result import CoordinatorRecord, Respond
    from pybroker.coordinator.state.group import Committer, Protocols
    from pybroker.model import GroupId, MemberEpoch, MemberId

FIRST_GENERATION: Final = GenerationId(0)
"""The generation of a group that had no rebalance yet."""


class GroupState(Enum):
    """The states of a group, by Kafka's names, which are on the wire."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = GroupState

PREVIOUS_STATES: Final[Mapping[GroupState, frozenset[GroupState]]] = MappingProxyType(
    {
        _EMPTY: frozenset({_PREPARING}),
        _PREPARING: frozenset({_EMPTY, _COMPLETING, _STABLE}),
        _COMPLETING: frozenset({_PREPARING}),
        _STABLE: frozenset({_COMPLETING}),
        _DEAD: frozenset(GroupState),
    }
)


@dataclass(slots=True, eq=False, kw_only=True)
class ClassicMember:
    """A member. At most one of its requests waits: a JoinGroup or a SyncGroup."""

    member_id: MemberId
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: Respond | None = field(default=None, init=False)
    awaiting_sync: Respond | None = field(default=None, init=False)
    is_new: bool = field(default=False, init=False)
    """Whether the response to its first JoinGroup has not been sent."""

    @property
    def is_excused(self) -> bool:
        """Return whether the member need not send heartbeats, because it waits for the group.

        A new member is not excused, because its client may be gone.
        """
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata of `protocol`, or nothing when the member does not know the protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


@dataclass(slots=True, eq=False)
class ClassicGroup:
    """The state of a group, and what can be asked about it. `join`, `sync`, `heartbeat` and `leave` change it.

    `state_since_ms` is None for a group that was written by Kafka before 2.1. `topics` are the topics that members subscribe to,
    None when that cannot be known.
    """

    group_id: GroupId
    _: KW_ONLY
    state: GroupState = GroupState.EMPTY
    generation_id: GenerationId = FIRST_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: MemberId | None = None
    state_since_ms: int | None = None
    previous_state: GroupState = field(default=GroupState.DEAD, init=False)
    members: dict[MemberId, ClassicMember] = field(default_factory=dict, init=False)
    static_members: dict[str, MemberId] = field(default_factory=dict, init=False)
    """Member ids by instance id."""
    pending_joins: set[MemberId] = field(default_factory=set, init=False)
    """Ids that were given out (KIP-394), and with which no client has joined yet."""
    pending_syncs: set[MemberId] = field(default_factory=set, init=False)
    """Members of this generation that have not sent a SyncGroup."""
    protocol_counts: Counter[str] = field(default_factory=Counter, init=False)
    awaiting_join_count: int = field(default=0, init=False)
    has_new_member: bool = field(default=False, init=False)
    topics: frozenset[str] | None = field(default=None, init=False)

    # Questions

    @property
    def is_consumer_group(self) -> bool:
        """Return whether the members are consumers, whose metadata can be read."""
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def can_rebalance(self) -> bool:
        """Return whether a rebalance can begin, because none is being prepared."""
        return self.state in PREVIOUS_STATES[GroupState.PREPARING_REBALANCE]

    @property
    def has_all_joined(self) -> bool:
        """Return whether every member waits for the new generation."""
        return len(self.members) == self.awaiting_join_count and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return how long members may take to join: the longest time that any of them asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # As a `Group`

    @property
    def type(self) -> GroupType:
        """Return the kind of the group, which is the same for every group of this class."""
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        """Return the name of the state, which is Kafka's name and on the wire."""
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        """Return the protocol type of the group's members; empty for a simple group."""
        return self.protocol_type or ""

    @property
    def is_unused(self) -> bool:
        """Return whether the group has no members and no client is about to join."""
        return self.state is GroupState.EMPTY and not self.pending_joins

    @property
    def offset_age(self) -> OffsetAge:
        """Return how the age of offsets counts in this state; the table is in `expiry`."""
        if self.protocol_type is None:
            return SINCE_COMMIT
        if self.state is GroupState.EMPTY:
            return OffsetAge(is_counted=True, since_ms=self.state_since_ms)
        is_counted = self.state is GroupState.STABLE and self.is_consumer_group and self.topics is not None
        return SINCE_COMMIT if is_counted else NEVER_OLD

    def check_commit(self, committer: Committer) -> ErrorCode:
        """Return NONE if the committer may commit in the group's state and generation, else what is wrong."""
        if self.state is GroupState.EMPTY and committer.generation_id < 0:
            return ErrorCode.NONE
        is_transactional = committer.producer is not None
        if committer.is_unknown:  # and the group has members
            return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
        code = self.check_member(committer.member_id, committer.group_instance_id)
        if code:
            return code
        if committer.generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        # The member knows the new generation, but not yet its assignment in it.
        is_early = self.state is GroupState.COMPLETING_REBALANCE and not is_transactional
        return ErrorCode.REBALANCE_IN_PROGRESS if is_early else ErrorCode.NONE

    def check_fetch(self, _member_id: MemberId | None, _member_epoch: MemberEpoch) -> ErrorCode:
        """Return NONE, because every client may fetch the offsets of a classic group."""
        return ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        """Return NONE if the group is empty or of consumers: of other members the broker does not know what they read."""
        may = self.state is GroupState.EMPTY or self.is_consumer_group
        return ErrorCode.NONE if may else ErrorCode.NON_EMPTY_GROUP

    def check_delete(self) -> ErrorCode:
        """Return NONE if the group is empty, else NON_EMPTY_GROUP."""
        return ErrorCode.NONE if self.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the one record that ends the group."""
        return [group_tombstone(self.group_id)]

    # Members

    def check_member(self, member_id: MemberId, group_instance_id: str | None) -> ErrorCode:
        """Return NONE, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another member has taken the place of the instance."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a member with these protocols can work with the present members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        return protocol_type == self.protocol_type and any(self.protocol_counts[name] == len(self.members) for name in names)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member reads the topic. Where that cannot be known, a group of consumers might read every topic."""
        return self.is_consumer_group if self.topics is None else topic in self.topics

    def elected_protocol(self) -> str:
        """Return the protocol that wins the vote: each member votes for its favourite among the protocols that all members know,
        and the first protocol with most votes wins.
        """
        member_count = len(self.members)
        candidates = {name for name, count in self.protocol_counts.items() if count == member_count}
        votes = Counter(next(name for name, _ in member.protocols if name in candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    # Changes

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Move the group to `state`, as the table at the top of the module allows."""
        assert self.state in PREVIOUS_STATES[state], f"{self.group_id}: {self.state.value} to {state.value}"
        self.previous_state, self.state, self.state_since_ms = self.state, state, now_ms

    def add(self, member: ClassicMember, respond: Respond | None) -> None:
        """Add a member; `respond` belongs to its JoinGroup."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.protocol_counts.update(name for name, _ in member.protocols)
        member.awaiting_join = respond
        self.awaiting_join_count += respond is not None
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: MemberId) -> ClassicMember | None:
        """Remove a member, or an id that was given out. If it was the leader, the next member in order becomes the leader.

        The caller responds to the requests of the member that wait.
        """
        member = self.members.pop(member_id, None)
        if member is not None:
            self._forget_protocols(member)
            self.awaiting_join_count -= member.awaiting_join is not None
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        return member

    def _forget_protocols(self, member: ClassicMember) -> None:
        """Count the protocols of a member no more. Names that no member has are not kept."""
        counts = self.protocol_counts
        for name, _ in member.protocols:
            counts[name] -= 1
            if not counts[name]:
                del counts[name]

    def update(
        self,
        member: ClassicMember,
        *,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        respond: Respond | None,
    ) -> None:
        """Take over what a newer JoinGroup of the member brings; this JoinGroup is now the one that waits."""
        self._forget_protocols(member)
        self.protocol_counts.update(name for name, _ in protocols)
        member.protocols = protocols
        member.rebalance_timeout_ms, member.session_timeout_ms = rebalance_timeout_ms, session_timeout_ms
        self.awaiting_join_count += (respond is not None) - (member.awaiting_join is not None)
        member.awaiting_join = respond

    def take_join(self, member: ClassicMember) -> Respond | None:
        """Return the way to respond to the member's JoinGroup, if it waits. It no longer waits: the caller responds."""
        respond, member.awaiting_join = member.awaiting_join, None
        self.awaiting_join_count -= respond is not None
        return respond

    def replace_static(self, group_instance_id: str, member_id: MemberId) -> ClassicMember:
        """Give a static member a new id. No request of the old id may still wait."""
        old_id = self.static_members[group_instance_id]
        member = replace(self.members[old_id], member_id=member_id)
        # The new id takes the place of the old one, because the order of members determines the next leader.
        self.members = {member.member_id if id_ == old_id else id_: m for id_, m in self.members.items()}
        self.members[member_id] = member
        self.static_members[group_instance_id] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id
        return member

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is a member that waits for the generation. Returns whether there is such a member."""
        leader = self.members.get(self.leader_id or NO_MEMBER_ID)
        if leader is None:
            return False
        if leader.awaiting_join is None:
            joined = next((m.member_id for m in self.members.values() if m.awaiting_join is not None), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    def begin_generation(self, now_ms: int) -> None:
        """Begin the next generation with the present members, and elect its protocol; without members the group becomes Empty."""
        self.generation_id = GenerationId(self.generation_id + 1)
        self.protocol_name = self.elected_protocol() if self.members else None
        self.topics = self.computed_topics()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)
        self.pending_syncs.clear()

    def computed_topics(self) -> frozenset[str] | None:
        """Return the topics that members subscribe to by their metadata, or None for other groups and unreadable metadata."""
        if not self.is_consumer_group:
            return None
        return subscribed_topics(member.metadata(self.protocol_name) for member in self.members.values())
