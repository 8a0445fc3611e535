"""The state of a KIP-848 group after every event in every state, as Kafka's ConsumerGroup.maybeUpdateGroupState has it.

The events are what the replay of records does to a group. Requests decide which of them happen; the stories in `tests/scenarios`
and the machine of `test_consumer_machine.py` play those. `tests/coordinator/test_state_tables.py` has the states of a member.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pybroker.coordinator.state.consumer_group import ConsumerGroup
from pybroker.coordinator.state.consumer_member import ConsumerMember, MemberState
from pybroker.model import GroupId, MemberId, group_epoch

TABLE = """
                             Empty       Assigning     Reconciling   Stable
    a member joins           Assigning   Assigning     Assigning     Assigning
    the epoch grows          Empty       Assigning     Assigning     Assigning
    a target is made         Empty       Reconciling   Reconciling   Stable
    all reach the target     Empty       Assigning     Stable        Stable
    one must give up         Empty       Assigning     Reconciling   Reconciling
    one waits for others     Empty       Assigning     Reconciling   Reconciling
    one of several leaves    Empty       Assigning     Assigning     Assigning
    all leave                Empty       Empty         Empty         Empty
"""


def join(group: ConsumerGroup) -> None:
    group.epoch = group_epoch(group.epoch + 1)
    group.put(ConsumerMember(member_id=MemberId(f"m{len(group.members)}")))


def grow(group: ConsumerGroup) -> None:
    group.epoch = group_epoch(group.epoch + 1)


def make_target(group: ConsumerGroup) -> None:
    group.target_epoch = group.epoch


def all_reach(group: ConsumerGroup) -> None:
    for member in list(group.members.values()):
        group.put(replace(member, epoch=group.target_epoch, state=MemberState.STABLE))


def one_is(state: MemberState) -> Callable[[ConsumerGroup], None]:
    def change(group: ConsumerGroup) -> None:
        for member in list(group.members.values())[:1]:
            group.put(replace(member, epoch=group.target_epoch, state=state))

    return change


def one_leaves(group: ConsumerGroup) -> None:
    group.epoch = group_epoch(group.epoch + 1)
    for member_id in list(group.members)[:1]:
        group.remove(member_id)


def all_leave(group: ConsumerGroup) -> None:
    group.epoch = group_epoch(group.epoch + 1)
    for member_id in list(group.members):
        group.remove(member_id)


EVENTS: dict[str, Callable[[ConsumerGroup], None]] = {
    "a member joins": join,
    "the epoch grows": grow,
    "a target is made": make_target,
    "all reach the target": all_reach,
    "one must give up": one_is(MemberState.UNREVOKED_PARTITIONS),
    "one waits for others": one_is(MemberState.UNRELEASED_PARTITIONS),
    "one of several leaves": one_leaves,
    "all leave": all_leave,
}
WAYS: dict[str, list[Callable[[ConsumerGroup], None]]] = {
    "Empty": [],
    "Assigning": [join, join],
    "Reconciling": [join, join, make_target],
    "Stable": [join, join, make_target, all_reach],
}
"""The events that bring a new group into each state; with two members where there are any."""


def cells() -> list[tuple[str, str, str]]:
    header, *rows = TABLE.strip("\n").splitlines()
    return [
        (state, row[:29].strip(), after) for row in rows for state, after in zip(header.split(), row[29:].split(), strict=True)
    ]


@pytest.mark.parametrize(("state", "event", "after"), cells())
def test_the_state_after_an_event_is_that_of_the_table(state: str, event: str, after: str) -> None:
    group = ConsumerGroup(GroupId("g"))
    for step in WAYS[state]:
        step(group)
    assert group.state_name == state
    EVENTS[event](group)
    assert group.state_name == after


def test_the_table_has_every_state_and_event() -> None:
    assert {(state, event) for state, event, _ in cells()} == {(state, event) for state in WAYS for event in EVENTS}
