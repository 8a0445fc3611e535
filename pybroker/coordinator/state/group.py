"""The interfaces of a group, whatever its kind, and what requests bring.

    Group          what offsets, expiry and administrators need to know; `ClassicGroup` and `ConsumerGroup` implement it
    GroupRequests  what JoinGroup, SyncGroup, Heartbeat and LeaveGroup do to a group, and what its members need when they commit,
                   and when the group is loaded or unloaded. `classic/requests.py` has it for classic groups, and
                   `consumer/classic_requests.py` for KIP-848 groups, whose members may speak the classic protocol

ConsumerGroupHeartbeat makes the group that it needs (`consumer/heartbeat.py`), and DescribeGroups and ConsumerGroupDescribe know
groups of one kind only, so these three are not part of either.

Source: Group of Kafka's group coordinator, which has the first part; KIP-848.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.coordinator.runtime.result import (
        CoordinatorRecord,
        CoordinatorResult,
        ParkedResponse,
        Producer,
        Respond,
    )
    from pybroker.model import GenerationId, GroupId, MemberEpoch, MemberId
    from pybroker.protocol.messages.heartbeat import HeartbeatRequest
    from pybroker.protocol.messages.leave_group import LeaveGroupRequest
    from pybroker.protocol.messages.sync_group import SyncGroupRequest
    from pybroker.sharing.work import Pausing


Protocols = tuple[tuple[str, bytes], ...]
"""The names and metadata of the protocols that a member can use, its favourite first."""


class GroupType(Enum):
    """The kinds of groups, by Kafka's names, which are on the wire."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class OffsetAge(NamedTuple):
    """The way in which the age of a group's offsets counts. When `is_counted` is false, the offsets never get old.

    The age counts since `since_ms`, or since the commit of each offset when `since_ms` is None.
    """

    is_counted: bool
    since_ms: int | None = None


SINCE_COMMIT: Final = OffsetAge(is_counted=True)
NEVER_OLD: Final = OffsetAge(is_counted=False)


@dataclass(slots=True, frozen=True, kw_only=True)
class JoinRequest:
    """The content of a JoinGroup, and what the connection knows of its client."""

    group_id: GroupId
    member_id: MemberId
    group_instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    requires_member_id: bool
    """True from v4: a new dynamic member first gets an id (KIP-394)."""
    can_skip_assignment: bool
    """True from v9: the response can keep a static leader that comes back from assigning again (KIP-814)."""
    respond: Respond


class Committer(NamedTuple):
    """The client that commits. `generation_id` is negative, `member_id` empty and the instance None for a client that is no
    member.

    `unknown_group` is the error when a member commits to a group that does not exist; it depends on the version of the request.
    `knows_epochs` depends on it, too: it shows whether `generation_id` may be the epoch of a KIP-848 member. If the offsets
    belong to a transaction, `producer` is the one of the transaction.
    """

    group_id: GroupId
    generation_id: GenerationId
    member_id: MemberId
    group_instance_id: str | None
    unknown_group: ErrorCode = ErrorCode.ILLEGAL_GENERATION
    knows_epochs: bool = False
    producer: Producer | None = None

    @property
    def is_unknown(self) -> bool:
        """Whether the client names no member, which only the offsets of a transaction may leave out while there are members."""
        return self.generation_id < 0 and not self.member_id and self.group_instance_id is None


class Group(Protocol):
    """A group as offsets, expiry and administrators see it."""

    group_id: GroupId

    @property
    def type(self) -> GroupType:
        """Return the kind of the group."""

    @property
    def state_name(self) -> str:
        """Return the name of the group's state, as it is on the wire."""

    @property
    def listed_protocol_type(self) -> str:
        """Return the protocol type that ListGroups reports; empty for a simple group."""

    @property
    def is_unused(self) -> bool:
        """Return whether the group ends with its last offset, because it has no members and none is about to join."""

    @property
    def offset_age(self) -> OffsetAge:
        """Return how the age of the group's offsets counts now."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member reads the topic."""

    def check_commit(self, committer: Committer) -> ErrorCode:
        """Return NONE if the committer may commit offsets now, else what is wrong."""

    def check_fetch(self, member_id: MemberId | None, member_epoch: MemberEpoch) -> ErrorCode:
        """Return NONE if a fetch of offsets is served, else what is wrong with the member."""

    def check_offset_delete(self) -> ErrorCode:
        """Return NONE if offsets of topics that no member reads may be deleted, else what is wrong."""

    def check_delete(self) -> ErrorCode:
        """Return NONE if the group may be deleted, else what is wrong."""

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the records that end the group. Its offsets have tombstones of their own."""


class GroupRequests(Protocol):
    """The part of the coordinator that serves the requests of members that speak the classic protocol, and that knows what else
    runs for the members of a group: timers, and requests that wait.
    """

    def make_way(self, request: JoinRequest) -> CoordinatorResult:
        """Return what must happen before a member joins in the classic protocol: the end of a KIP-848 group without members.

        A request that a group that does not exist refuses changes nothing.
        """

    def join(self, request: JoinRequest, now_ms: int) -> CoordinatorResult | Pausing[CoordinatorResult]:
        """Serve a JoinGroup. Raises KafkaError."""

    def sync(self, request: SyncGroupRequest, respond: Respond, now_ms: int) -> CoordinatorResult | Pausing[CoordinatorResult]:
        """Serve a SyncGroup; a response that is not in the result goes to `respond`. Raises KafkaError."""

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> CoordinatorResult:
        """Serve a Heartbeat. Raises KafkaError."""

    def leave(self, request: LeaveGroupRequest, now_ms: int) -> CoordinatorResult:
        """Serve a LeaveGroup, in its form from v3."""

    def note_commit(self, result: CoordinatorResult, member_id: MemberId) -> None:
        """Note in `result` that a client, which may be a member, has committed: this keeps a session of a classic group alive."""

    def resume(self, result: CoordinatorResult, now_ms: int) -> None:
        """Start the timers of a group that was loaded, and whatever else its members need, in `result`."""

    def refuse_waiting(self, code: ErrorCode) -> Sequence[ParkedResponse]:
        """Return the responses, with this code, to the requests of members that wait."""
