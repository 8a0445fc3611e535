"""Moves a member a step towards its target: it first gives up what it must, and it gets only what no other member has.

Source: CurrentAssignmentBuilder; KIP-848.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pybroker.coordinator.state.consumer_member import NOTHING, Assignment, ConsumerMember, MemberState
from pybroker.model import GroupEpoch, MemberEpoch

if TYPE_CHECKING:
    from collections.abc import Callable

_NONE: Final[frozenset[int]] = frozenset()


def next_step(
    member: ConsumerMember,
    target: Assignment,
    target_epoch: GroupEpoch,
    *,
    is_free: Callable[[tuple[bytes, int]], bool],
    owned: Assignment | None,
) -> ConsumerMember:
    """Return the member as it is after the step, or the same object if the member cannot move.

    `is_free` returns whether no other member has a partition. `owned` is what the member reports to have, None if it reports
    nothing.
    """
    epoch = member.epoch
    if member.state is MemberState.STABLE and epoch == target_epoch:
        return member
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _has_any(owned, member.pending_revocation):
            return member
        epoch = MemberEpoch(epoch + 1)  # the member gave up what an earlier target took from it; there may be a newer target
    assigned: dict[bytes, frozenset[int]] = {}
    to_revoke: dict[bytes, frozenset[int]] = {}
    for topic_id, partitions in member.assigned.items():
        wanted = target.get(topic_id, _NONE)
        if kept := partitions & wanted:
            assigned[topic_id] = kept
        if unwanted := partitions - wanted:
            to_revoke[topic_id] = unwanted
    if to_revoke and _has_any(owned, to_revoke):
        return _moved(
            member,
            epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=assigned,
            pending_revocation=to_revoke,
        )
    is_complete = True
    for topic_id, partitions in target.items():
        if new := partitions - member.assigned.get(topic_id, _NONE):
            free = frozenset([number for number in new if is_free((topic_id, number))])
            is_complete &= len(free) == len(new)
            if free:
                assigned[topic_id] = assigned.get(topic_id, _NONE) | free
    return _moved(
        member,
        target_epoch,
        state=MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS,
        assigned=assigned,
        pending_revocation=NOTHING,
    )


def _moved(
    member: ConsumerMember, epoch: MemberEpoch, *, state: MemberState, assigned: Assignment, pending_revocation: Assignment
) -> ConsumerMember:
    return replace(
        member,
        previous_epoch=member.epoch if epoch != member.epoch else member.previous_epoch,
        epoch=epoch,
        state=state,
        assigned=assigned,
        pending_revocation=pending_revocation,
    )


def _has_any(owned: Assignment | None, partitions: Assignment) -> bool:
    """Return whether the member may still have any of `partitions`, as it may when it reports nothing."""
    return owned is None or any(owned.get(topic_id, frozenset()) & numbers for topic_id, numbers in partitions.items())
