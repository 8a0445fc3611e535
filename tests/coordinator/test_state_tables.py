"""The tables at the top of `classic_group` and `consumer_member` are true, and the stories in `tests/scenarios` go through
every cell of them.

The test plays all stories. It notes every change of the state of a group or a member, for every event the states before and after
it, and for every request the state of its group and the outcome. It reads the tables from the modules' text.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from enum import Enum
from types import ModuleType
from typing import Any

import pytest

from pybroker.coordinator.consumer import draft
from pybroker.coordinator.consumer.reconciliation import next_step
from pybroker.coordinator.service import GroupCoordinator
from pybroker.coordinator.state import classic_group as group
from pybroker.coordinator.state import consumer_group
from pybroker.coordinator.state import consumer_member as member
from pybroker.coordinator.state.classic_group import PREVIOUS_STATES, ClassicGroup, GroupState
from pybroker.coordinator.state.consumer_group import ConsumerGroup, ConsumerGroupState
from pybroker.coordinator.state.consumer_member import JOIN_EPOCH, ConsumerMember, MemberState
from pybroker.coordinator.state.group import GroupType
from pybroker.coordinator.state.shard import GroupShard
from pybroker.model import MemberEpoch, MemberId, group_epoch
from pybroker.protocol.error_codes import ErrorCode
from testing.error_codes import error_code
from tests.coordinator.events import Events
from tests.coordinator.scenario import Story
from tests.coordinator.story_at_random import story_at_random
from tests.coordinator.test_scenarios import FOLDER

Cells = dict[tuple[str, str], str]
"""The cells of a table, by row and column."""

SEEDS = (13, 22, 28, 42, 56, 66, 70)
"""The random stories that together have everything that the first 150 have; found by trying them."""

WAITS = "waits"
OUTCOMES = {  # the outcomes that words stand for which are not the name of a code
    "rebalance begins": {WAITS, "NONE"},
    "rebalance begins again": {WAITS, "NONE"},
    "waits": {WAITS},
    "waits for the leader": {WAITS},
    "the generation again": {"NONE"},
    "the assignment": {"NONE"},
    "removed": {"NONE"},
    "taken": {"NONE"},
    "done": {"NONE"},
    "if not subscribed": {"NONE", "GROUP_SUBSCRIBED_TO_TOPIC"},
}


def table(first_word: str, module: ModuleType = group) -> Cells:
    """Read the table of the module's text whose header begins with `first_word`."""
    lines = (module.__doc__ or "").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(f"    {first_word}"))
    starts = [match.start() + 1 for match in re.finditer(r"  \S", lines[at])][1:]
    ends = [*starts[1:], 1000]
    columns = [lines[at][begin:end].strip() for begin, end in zip(starts, ends, strict=True)]
    cells: Cells = {}
    row = ""
    for line in lines[at + 1 :]:
        if not line.strip():
            return cells
        label = line[: starts[0]]
        if label.strip() and not label.startswith("     "):
            row = label.strip()
        for column, begin, end in zip(columns, starts, ends, strict=True):
            cells[row, column] = f"{cells.get((row, column), '')} {line[begin:end].strip()}".strip()
    raise AssertionError("the table does not end")


def short(state: MemberState) -> str:
    """Return the state of a member, as the table names it."""
    return state.name.removesuffix("_PARTITIONS")


class Seen:
    """The transitions that happened, and the outcomes by request and state."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.transitions: set[tuple[str, str]] = set()
        self.member_transitions: set[tuple[str, str]] = set()
        self.outcomes: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._watch_transitions(patch)
        self._watch_members(patch)
        self._watch(patch, "join", lambda args: (self._join_row(args), args[0].group_id))
        self._watch(patch, "sync", lambda args: ("SyncGroup", args[0].group_id))
        self._watch(patch, "heartbeat", lambda args: ("Heartbeat", args[0].group_id))
        self._watch(patch, "leave", lambda args: ("LeaveGroup", args[0].group_id))
        self._watch(patch, "commit", lambda args: ("OffsetCommit" if args[0].member_id else "... without", args[0].group_id))
        self._watch(patch, "delete_offsets", lambda args: ("OffsetDelete", args[0]))
        self._watch(patch, "delete_groups", lambda args: ("DeleteGroups", next(iter(args[0]))))

    def _watch_transitions(self, patch: pytest.MonkeyPatch) -> None:
        transition_to, replay_group = ClassicGroup.transition_to, GroupShard._replay_group

        def noted(group: ClassicGroup, state: GroupState, now_ms: int) -> None:
            self.transitions.add((group.state.value, state.value))
            transition_to(group, state, now_ms)

        def replayed(shard: GroupShard, key: Any, value: Any) -> None:
            if value is None and key.group in shard.classic_groups:
                self.transitions.add((shard.classic_groups[key.group].state.value, GroupState.DEAD.value))
            replay_group(shard, key, value)

        patch.setattr(ClassicGroup, "transition_to", noted)
        patch.setattr(GroupShard, "_replay_group", replayed)

    def _watch_members(self, patch: pytest.MonkeyPatch) -> None:
        step, remove = next_step, ConsumerGroup.remove

        def stepped(before: ConsumerMember, *args: Any, **more: Any) -> ConsumerMember:
            after = step(before, *args, **more)
            if after is not before:
                is_new = before.epoch == JOIN_EPOCH and before.previous_epoch < JOIN_EPOCH
                self.member_transitions.add(("new" if is_new else short(before.state), short(after.state)))
            return after

        def removed(group: ConsumerGroup, member_id: str) -> None:
            if member_id in group.members:
                self.member_transitions.add((short(group.members[MemberId(member_id)].state), "gone"))
            remove(group, MemberId(member_id))

        patch.setattr(draft, "next_step", stepped)
        patch.setattr(ConsumerGroup, "remove", removed)

    @staticmethod
    def _join_row(args: tuple[Any, ...]) -> str:
        return "JoinGroup old" if args[0].member_id else "JoinGroup new"

    def _watch(self, patch: pytest.MonkeyPatch, name: str, describe: Any) -> None:
        original = getattr(GroupCoordinator, name)

        def watched(coordinator: GroupCoordinator, *args: Any, **more: Any) -> None:
            row, group_id = describe(args)
            groups = [shard.classic_groups[group_id] for shard in coordinator.runtime.shards if group_id in shard.classic_groups]
            state = groups[0].state.value if groups else "no group"
            if row == "JoinGroup old" and groups and args[0].member_id in groups[0].pending_joins:
                row = "JoinGroup new"
            first: list[str] = []
            done = args[0].respond if name == "join" else args[-1]

            def note(outcome: Any) -> None:
                first.append(self._code(outcome))
                done(outcome)

            if name == "join":
                object.__setattr__(args[0], "respond", note)  # frozen; made for this call alone
                original(coordinator, *args)
            else:
                original(coordinator, *args[:-1], note, **more)
            self.outcomes[row, state].add(first[0] if first else WAITS)

        patch.setattr(GroupCoordinator, name, watched)

    @staticmethod
    def _code(outcome: Any) -> str:
        if isinstance(outcome, dict):  # the first of the partitions or groups
            outcome = next(iter(outcome.values()), ErrorCode.NONE)
        elif not isinstance(outcome, ErrorCode):
            members = getattr(outcome, "members", [])
            codes = [member.error_code for member in members if hasattr(member, "error_code")]
            outcome = error_code(outcome.error_code or next(iter(codes), 0))
        return str(outcome.name)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Seen, dict[GroupType, Events]]:
    async def play(text: str) -> None:
        await Story(tmp_path_factory.mktemp("story")).play(text)

    with pytest.MonkeyPatch.context() as patch:
        noted, events = Seen(patch), {kind: Events(kind, patch) for kind in GroupType}
        for path in sorted(FOLDER.glob("*.txt")):
            asyncio.run(play(path.read_text()))
        for seed in SEEDS:
            asyncio.run(play(story_at_random(seed, 600)))
    return noted, events


@pytest.fixture
def seen(played: tuple[Seen, dict[GroupType, Events]]) -> Seen:
    return played[0]


@pytest.fixture
def events(played: tuple[Seen, dict[GroupType, Events]]) -> dict[GroupType, Events]:
    return played[1]


def test_the_table_of_transitions_is_that_of_the_code() -> None:
    in_table = {(row, column) for (row, column), text in table("from").items() if text != "-"}
    allowed = {(before.value, after.value) for after, previous in PREVIOUS_STATES.items() for before in previous}
    assert in_table == {(before, after) for before, after in allowed if before != GroupState.DEAD.value}


def test_the_stories_have_every_transition(seen: Seen) -> None:
    in_table = {(row, column) for (row, column), text in table("from").items() if text != "-"}
    assert seen.transitions == in_table


def test_the_stories_have_every_request_in_every_state(seen: Seen) -> None:
    cells = table("request")
    assert len(cells) == 9 * 4
    wrong = []
    for (row, state), text in cells.items():
        words = re.split("[;,]", text)[0].strip()
        outcomes = seen.outcomes[row, state]
        if not outcomes & OUTCOMES.get(words, {words}):
            wrong.append(f"{row} in {state} is {words!r} in the table; in the stories: {', '.join(outcomes) or 'nothing'}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("kind", "module", "states"),
    [(GroupType.CLASSIC, group, GroupState), (GroupType.CONSUMER, consumer_group, ConsumerGroupState)],
)
def test_the_table_of_events_is_what_happens(
    events: dict[GroupType, Events], kind: GroupType, module: ModuleType, states: type[Enum]
) -> None:
    letters = {state.value[0]: state.value for state in states}
    in_table = {
        (event, state): {state if letter == "-" else letters[letter] for letter in text.split()}
        for (event, state), text in table("event", module).items()
        if text
    }
    assert events[kind].seen == in_table


MEMBERS = {cell for cell, text in table("from", member).items() if text != "-"}
PARTS: tuple[frozenset[int], ...] = tuple(frozenset(n for n in range(2) if bits & 1 << n) for bits in range(4))


def steps_of_the_code() -> Iterator[tuple[str, str]]:
    """Run `next_step` on every member with two partitions, whatever its target, what it owns and what is free."""
    topic = b"t"
    for state, assigned, pending, target, free in itertools.product(MemberState, PARTS, PARTS, PARTS, PARTS):
        if assigned & pending or bool(pending) is not (state is MemberState.UNREVOKED_PARTITIONS):
            continue
        before = ConsumerMember(
            member_id=MemberId("m"),
            epoch=MemberEpoch(1),
            state=state,
            assigned={topic: assigned},
            pending_revocation={topic: pending},
        )
        for target_epoch, owned in itertools.product((1, 2), (None, *PARTS)):
            after = next_step(
                before, {topic: target}, group_epoch(target_epoch),
                is_free=lambda partition, free=free: partition[1] in free,  # type: ignore[misc]
                owned=None if owned is None else {topic: owned},
            )  # fmt: skip
            if after is not before:
                yield short(before.state), short(after.state)


def test_the_table_of_members_is_that_of_the_code() -> None:
    from_table = {(before, after) for before, after in MEMBERS if before != "new" and after != "gone"}
    assert set(steps_of_the_code()) == from_table


def test_the_stories_have_every_transition_of_members(seen: Seen) -> None:
    assert len(table("from", member)) == 4 * 4
    assert seen.member_transitions == MEMBERS
