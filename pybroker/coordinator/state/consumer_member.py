"""A member of a KIP-848 group: what it reports about itself, what it has, and its state.

States
    STABLE                 the member has reached its epoch
    UNREVOKED_PARTITIONS   the member has partitions to give up, and has not reported yet that it did
    UNRELEASED_PARTITIONS  the target has partitions that other members have not given up yet

A heartbeat or a JoinGroup moves its member along this table by a single step (`reconciliation`), or changes nothing:

    from \\ to     STABLE                      UNREVOKED                UNRELEASED                  gone
    new           nothing is in the way       -                        its target is not free      -
    STABLE        new target, all is free     must give some up        its target is not free      leaves, silent, replaced
    UNREVOKED     gave up, all is free        newer target wants more  gave up, not all is free    leaves, silent, not in time
    UNRELEASED    the rest became free        newer target takes some  only a part became free     leaves, silent

    When an UNREVOKED static member announces to come again, it becomes STABLE: what it had to give up is free at once.
    `tests/coordinator/test_state_tables.py` compares the table with `reconciliation` and with what happens in the stories.

Source: ConsumerGroupMember, MemberState; KIP-848.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.model import NO_MEMBER_EPOCH, GroupEpoch, MemberEpoch

if TYPE_CHECKING:
    from pybroker.coordinator.state.group import Protocols
    from pybroker.model import MemberId

Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; every topic in it has partitions."""

Topics = Mapping[str, tuple[bytes, int]]
"""The id and the number of partitions of topics, by name."""

NAMES_MAX: Final = 20_000
"""The number of topics that a member may name, or report partitions of. In a record of the log, 20,000 names of the usual length
are about as much as max.message.bytes allows by default.
"""

NOTHING: Final[Assignment] = MappingProxyType({})

JOIN_EPOCH: Final = MemberEpoch(0)
LEAVE_EPOCH: Final = MemberEpoch(-1)
STATIC_LEAVE_EPOCH: Final = MemberEpoch(-2)


class MemberState(IntEnum):
    """The states of a member, by Kafka's numbers, which are in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ClassicMetadata(NamedTuple):
    """The part of a JoinGroup that is kept of a member of the classic protocol, which uses the first of its protocols."""

    session_timeout_ms: int
    protocols: Protocols

    @property
    def protocol_name(self) -> str:
        """Return the protocol that responses name to the member."""
        return self.protocols[0][0]


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerMember:
    """A member, as it was at some moment. Requests may also name `previous_epoch`: the response with the new one may be lost."""

    member_id: MemberId
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    epoch: MemberEpoch = JOIN_EPOCH
    previous_epoch: MemberEpoch = NO_MEMBER_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=lambda: NOTHING)
    pending_revocation: Assignment = field(default_factory=lambda: NOTHING)
    classic: ClassicMetadata | None = None
    """None for a member that speaks the consumer protocol."""

    def has_reached(self, target_epoch: GroupEpoch) -> bool:
        """Return whether the member has reached the target of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


def partitions_of(assignment: Assignment) -> Iterator[tuple[bytes, int]]:
    """Return the partitions singly, each with its topic's id."""
    return ((topic_id, partition) for topic_id, partitions in assignment.items() for partition in partitions)


def assignment_of(partitions: Iterator[tuple[bytes, int]]) -> dict[bytes, frozenset[int]]:
    """Return the assignment of these partitions, each of which is given with its topic's id."""
    collected: dict[bytes, set[int]] = {}
    for topic_id, partition in partitions:
        collected.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(numbers) for topic_id, numbers in collected.items()}
