"""The purgatory against a model: a dict of waiting operations and nothing else."""

from __future__ import annotations

import gc
import logging
import math
import weakref
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pybroker.clock import ManualClock, WakeUp
from pybroker.purgatory.purgatory import LARGE_KEYS, TRIES_PER_LOOK, DelayedOperation, Purgatory
from pybroker.purgatory.timer import OperationTimer
from testing.scenes.no_wake_up import never


class Waiting(DelayedOperation):
    """Complete once `is_ready`; counts what happens to it."""

    def __init__(self, *, is_ready: bool = False) -> None:
        super().__init__()
        self.is_ready = is_ready
        self.tries = self.completions = self.expirations = 0

    def try_complete(self) -> bool:
        self.tries += 1
        return self.is_ready and self.force_complete()

    def on_complete(self) -> None:
        self.completions += 1
        assert not self.is_pending, "a completed operation has left the timer"

    def on_expiration(self) -> None:
        assert self.completions == 1
        self.expirations += 1


class PurgatoryScene:
    def __init__(self, purge_interval: int = 1000) -> None:
        self.clock = ManualClock(0)
        self.timer = OperationTimer(self.clock, never)
        self.purgatory = Purgatory("test", self.timer, purge_interval)

    def pass_time(self, delta_ms: int) -> int:
        self.clock.advance(delta_ms)
        return self.timer.advance()


def test_a_ready_operation_is_completed_at_once_and_never_watched() -> None:
    scene = PurgatoryScene()
    operation = Waiting(is_ready=True)
    assert scene.purgatory.try_complete_else_watch(operation, ["a"], 100)
    assert (operation.tries, operation.completions) == (1, 1)
    assert (scene.purgatory.watched, scene.purgatory.delayed) == (0, 0)
    assert scene.timer.next_expiration_ms is None


def test_one_that_is_not_ready_is_tried_again_when_it_is_watched() -> None:
    scene = PurgatoryScene()

    class ReadyOnceWatched(Waiting):
        def try_complete(self) -> bool:
            self.is_ready = scene.purgatory.watched == 2
            return super().try_complete()

    operation = ReadyOnceWatched()
    assert scene.purgatory.try_complete_else_watch(operation, ["a", "b"], 100)
    assert (operation.tries, operation.completions) == (2, 1)
    assert scene.purgatory.delayed == 0
    assert scene.timer.next_expiration_ms is None


def test_an_event_on_any_of_its_keys_completes_it_and_it_leaves_the_timer_at_once() -> None:
    scene = PurgatoryScene()
    operation = Waiting()
    assert not scene.purgatory.try_complete_else_watch(operation, ["a", "b"], 100)
    assert operation.is_pending
    assert scene.purgatory.check_and_complete("b") == 0
    operation.is_ready = True
    assert scene.purgatory.check_and_complete("c") == 0
    assert scene.purgatory.check_and_complete("b") == 1
    assert not operation.is_pending
    assert (scene.purgatory.watched, scene.purgatory.delayed) == (1, 0)
    assert scene.purgatory.check_and_complete("a") == 0, "met there, removed, not completed twice"
    assert not scene.purgatory.watchers
    assert scene.pass_time(1000) == 0
    assert (operation.completions, operation.expirations) == (1, 0)


def test_its_time_completes_it_once_and_is_reported() -> None:
    scene = PurgatoryScene()
    operation = Waiting()
    scene.purgatory.try_complete_else_watch(operation, ["a"], 100)
    scene.pass_time(99)
    assert not operation.is_completed
    scene.pass_time(1)
    operation.is_ready = True
    assert scene.purgatory.check_and_complete("a") == 0
    assert (operation.completions, operation.expirations) == (1, 1)
    assert (scene.purgatory.watched, scene.purgatory.delayed) == (0, 0)


def test_no_time_to_wait_expires_it_before_the_call_returns() -> None:
    scene = PurgatoryScene()
    operation = Waiting()
    assert not scene.purgatory.try_complete_else_watch(operation, ["a"], 0)
    assert (operation.completions, operation.expirations, scene.purgatory.delayed) == (1, 1, 0)


def test_two_that_expire_together_where_the_first_completes_the_second() -> None:
    scene = PurgatoryScene()
    second = Waiting()

    class First(Waiting):
        def on_complete(self) -> None:
            super().on_complete()
            second.is_ready = True
            assert scene.purgatory.check_and_complete("b") == 1

    first = First()
    scene.purgatory.try_complete_else_watch(first, ["a"], 50)
    scene.purgatory.try_complete_else_watch(second, ["b"], 50)
    scene.pass_time(50)
    assert (first.completions, first.expirations) == (1, 1)
    assert (second.completions, second.expirations) == (1, 0), "the event came first"
    assert scene.purgatory.delayed == 0


def test_completing_one_may_watch_another_under_the_same_key_and_set_off_the_same_event() -> None:
    scene = PurgatoryScene()
    follower = Waiting()

    class Leader(Waiting):
        def on_complete(self) -> None:
            super().on_complete()
            scene.purgatory.try_complete_else_watch(follower, ["a"], 50)
            scene.purgatory.check_and_complete("a")

    bystander, leader, ready = Waiting(), Leader(), Waiting()
    for operation in (bystander, leader, ready):
        scene.purgatory.try_complete_else_watch(operation, ["a"], 50)
    leader.is_ready = ready.is_ready = True
    assert scene.purgatory.check_and_complete("a") == 2
    assert [leader.completions, ready.completions, bystander.completions, follower.completions] == [1, 1, 0, 0]
    assert (scene.purgatory.watched, scene.purgatory.delayed) == (2, 2)
    follower.is_ready = bystander.is_ready = True
    assert scene.purgatory.check_and_complete("a") == 2
    assert not scene.purgatory.watchers


def test_an_operation_that_fails_costs_neither_the_event_nor_the_others(caplog: pytest.LogCaptureFixture) -> None:
    scene = PurgatoryScene()

    class Broken(Waiting):
        def try_complete(self) -> bool:
            if self.is_ready:
                raise RuntimeError("a bug")
            return False

    broken, sound = Broken(), Waiting()
    for operation in (broken, sound):
        scene.purgatory.try_complete_else_watch(operation, ["a"], 50)
        operation.is_ready = True
    with caplog.at_level(logging.ERROR):
        assert scene.purgatory.check_and_complete("a") == 1
    assert "a bug" in caplog.text
    scene.pass_time(50)
    assert (broken.expirations, sound.expirations) == (1, 0)


def test_a_completed_operation_is_freed_as_soon_as_no_list_has_it() -> None:
    scene = PurgatoryScene()
    operations = [Waiting() for _ in range(3)]
    for operation in operations:  # neighbours in one bucket
        scene.purgatory.try_complete_else_watch(operation, ["a"], 60_000)
    gc.disable()
    try:
        operations[1].is_ready = True
        scene.purgatory.check_and_complete("a")
        gone = weakref.ref(operations[1])
        del operation, operations[1]
        assert gone() is None, "no other object refers to it, and it is in no cycle"
        kept = operations[0]
        kept.is_ready = True
        scene.purgatory.check_and_complete("a")
        gone = weakref.ref(operations[1])
        operations[1].force_complete()
        scene.purgatory.check_and_complete("a")
        operations.clear()
        assert gone() is None, "nor does one that was its neighbour"
        assert kept.is_completed
    finally:
        gc.enable()


def test_entries_left_under_quiet_keys_are_purged_once_they_exceed_the_interval() -> None:
    scene = PurgatoryScene(purge_interval=10)
    waiting = Waiting()
    scene.purgatory.try_complete_else_watch(waiting, ["quiet"], 60_000)
    for number in range(11):
        operation = Waiting()
        scene.purgatory.try_complete_else_watch(operation, ["busy", "quiet"], 60_000)
        operation.is_ready = True
        assert scene.purgatory.watched == 1 + number + 2
        scene.purgatory.check_and_complete("busy")
    assert (scene.purgatory.watched, scene.purgatory.delayed) == (1, 1), "the eleventh exceeded it"


def test_pending_operations_alone_are_never_purged() -> None:
    scene = PurgatoryScene(purge_interval=10)
    operations = [Waiting() for _ in range(1000)]
    for operation in operations:
        scene.purgatory.try_complete_else_watch(operation, ["a", "b"], 60_000)
    assert (scene.purgatory.delayed, scene.purgatory.watched) == (1000, 2000)
    for operation in operations[:10]:
        operation.force_complete()
    scene.purgatory.purge_if_due()
    assert (scene.purgatory.delayed, scene.purgatory.watched) == (990, 2000), "ten do not exceed the interval"
    operations[10].force_complete()
    scene.purgatory.purge_if_due()
    assert (scene.purgatory.delayed, scene.purgatory.watched) == (989, 2 * 989)


def test_what_events_alone_complete_never_needs_a_purge() -> None:
    scene = PurgatoryScene(purge_interval=10)
    for _ in range(100):
        operation = Waiting()
        scene.purgatory.try_complete_else_watch(operation, ["a"], 60_000)
        operation.is_ready = True
        scene.purgatory.check_and_complete("a")
        assert not scene.purgatory.completed, "met under its only key, nothing is left to purge"


@given(
    purge_interval=st.integers(0, 20),
    steps=st.lists(st.tuples(st.sampled_from("wewtx"), st.integers(0, 7), st.integers(0, 30)), max_size=120),
)
def test_completed_entries_never_exceed_the_interval_by_more_than_one_operation(
    purge_interval: int, steps: list[tuple[str, int, int]]
) -> None:
    scene = PurgatoryScene(purge_interval)
    purgatory = scene.purgatory
    operations: list[Waiting] = []
    for step, number, delay_ms in steps:
        if step == "w":
            operations.append(Waiting())
            purgatory.try_complete_else_watch(operations[-1], [number, number + 1], delay_ms)
        elif step == "e":
            for operation in operations[number::3]:
                operation.is_ready = True
            purgatory.check_and_complete(number)
        else:
            scene.pass_time(delay_ms)
        lists = purgatory.watchers.values()
        completed = {id(operation) for entries in lists for operation in entries if operation.is_completed}
        assert len(completed) <= purge_interval, "the estimate is never too low"
        assert all(lists), "an empty list does not stay"


class AgainstTheModel(RuleBasedStateMachine):
    """Every operation is completed exactly once, by its event or at its millisecond."""

    @initialize(purge_interval=st.integers(0, 5))
    def start(self, purge_interval: int) -> None:
        self.scene = PurgatoryScene(purge_interval)
        self.operations: list[tuple[Waiting, frozenset[int], int]] = []

    @rule(keys=st.frozensets(st.integers(0, 4), min_size=1), timeout_ms=st.integers(0, 900), is_ready=st.booleans())
    def watch(self, keys: frozenset[int], timeout_ms: int, is_ready: bool) -> None:
        operation = Waiting(is_ready=is_ready)
        self.operations.append((operation, keys, self.scene.clock.monotonic_ms() + timeout_ms))
        assert self.scene.purgatory.try_complete_else_watch(operation, list(keys), timeout_ms) == is_ready

    @rule(number=st.integers(0, 30))
    def make_ready(self, number: int) -> None:
        if number < len(self.operations):
            self.operations[number][0].is_ready = True

    @rule(key=st.integers(0, 5))
    def event(self, key: int) -> None:
        due = [op for op, keys, _ in self.operations if key in keys and op.is_ready and not op.is_completed]
        assert self.scene.purgatory.check_and_complete(key) == len(due)
        assert all(operation.is_completed for operation in due)

    @rule(number=st.integers(0, 30))
    def force(self, number: int) -> None:
        if number < len(self.operations):
            operation = self.operations[number][0]
            was_completed = operation.is_completed
            assert operation.force_complete() is not was_completed

    @rule(delta_ms=st.integers(0, 500))
    def pass_time(self, delta_ms: int) -> None:
        self.scene.pass_time(delta_ms)

    @invariant()
    def exactly_once(self) -> None:
        now_ms = self.scene.clock.monotonic_ms()
        for operation, _, expiration_ms in self.operations:
            assert operation.completions == int(operation.is_completed)
            assert operation.expirations <= operation.completions
            assert operation.is_completed or expiration_ms > now_ms, "not a millisecond late"
            assert not operation.expirations or expiration_ms <= now_ms, "nor early"
            assert operation.is_pending is not operation.is_completed
        waiting = [keys for operation, keys, _ in self.operations if not operation.is_completed]
        assert self.scene.purgatory.delayed == len(waiting)
        assert self.scene.purgatory.watched >= sum(map(len, waiting))


TestAgainstTheModel = AgainstTheModel.TestCase


def test_everything_that_waits_can_be_completed_at_once() -> None:
    scene = PurgatoryScene()
    operations = [Waiting() for _ in range(3)]
    for number, operation in enumerate(operations):
        assert not scene.purgatory.try_complete_else_watch(operation, ["a", number], 1000)
    assert scene.purgatory.complete_all() == 3
    assert [(operation.completions, operation.expirations) for operation in operations] == [(1, 1)] * 3
    assert scene.purgatory.complete_all() == 0
    assert scene.pass_time(2000) == 0
    assert scene.purgatory.delayed == 0


def step_by_step(slice_s: float = 0.0) -> tuple[Purgatory, list[Callable[[], None]]]:
    """Make a purgatory whose slices end after one step, or never. The list gets the callbacks that are due at once."""
    clock = ManualClock(0)
    turns: list[Callable[[], None]] = []

    def call_at(when_ms: int, callback: Callable[[], None]) -> WakeUp:
        if when_ms == clock.monotonic_ms():
            turns.append(callback)
        return never(when_ms, callback)

    purgatory = Purgatory("test", OperationTimer(clock, call_at, slice_s=slice_s))
    return purgatory, turns


def test_an_event_that_very_many_wait_for_gives_the_loop_back() -> None:
    purgatory, turns = step_by_step()
    waiting = [Waiting() for _ in range(100)]
    for one in waiting:
        purgatory.try_complete_else_watch(one, ["a"], 1000)
        one.is_ready = True
    waiting[-1].is_ready = False
    assert purgatory.check_and_complete("a") == TRIES_PER_LOOK
    waiting[50].force_complete()  # by another event, between two turns
    late = Waiting(is_ready=False)
    purgatory.try_complete_else_watch(late, ["a"], 1000)
    while turns:
        turns.pop(0)()
    assert [one.completions for one in waiting] == [1] * 99 + [0]
    assert all(one.tries == 3 for one in waiting[:50]), "each is tried once by the event"
    assert (purgatory.watched, purgatory.delayed) == (2, 2)


def test_many_events_at_once_give_the_loop_back() -> None:
    purgatory, turns = step_by_step()
    waiting = [Waiting() for _ in range(100)]
    for number, one in enumerate(waiting):
        purgatory.try_complete_else_watch(one, [number], 1000)
        one.is_ready = number != 70
    purgatory.check_all([*range(50), "none waits"])
    assert sum(one.completions for one in waiting) == 1
    purgatory.check_all(range(50, 100))
    assert sum(one.completions for one in waiting) == 2
    assert purgatory.check_and_complete(99) == 2, "an event of its own is no reason to wait longer"
    while turns:
        turns.pop(0)()
    assert [one.completions for one in waiting] == [1] * 70 + [0] + [1] * 29
    assert (purgatory.delayed, purgatory.watched) == (1, 1)


def test_events_at_once_within_a_completion_are_looked_at_after_it() -> None:
    purgatory, _ = step_by_step(math.inf)
    order: list[str] = []

    class Cause(Waiting):
        def on_complete(self) -> None:
            super().on_complete()
            purgatory.check_all(["b"])
            order.append("cause")

    class Effect(Waiting):
        def on_complete(self) -> None:
            super().on_complete()
            order.append("effect")

    cause, effect = Cause(), Effect()
    purgatory.try_complete_else_watch(cause, ["a"], 1000)
    purgatory.try_complete_else_watch(effect, ["b"], 1000)
    cause.is_ready = effect.is_ready = True
    assert purgatory.check_and_complete("a") == 2
    assert order == ["cause", "effect"]


def test_an_operation_with_very_many_keys_is_dropped_in_slices() -> None:
    purgatory, turns = step_by_step()
    operation, count = Waiting(), 2 * LARGE_KEYS
    purgatory.try_complete_else_watch(operation, range(count), 1000)
    assert (purgatory.watched, purgatory.delayed) == (count, 1)
    operation.is_ready = True
    assert purgatory.check_and_complete(7) == 1
    assert (purgatory.watched, purgatory.delayed) == (count - 1, 0)
    assert len(operation._keys) == 0, "later turns free them"
    left = [purgatory.watched]
    while turns:
        turns.pop(0)()
        left.append(purgatory.watched)
    assert left[0] > left[1] > left[-1] == 0


@pytest.mark.parametrize("slice_s", [math.inf, 0.0])
def test_thousands_that_cause_events_when_they_complete_are_all_completed(slice_s: float) -> None:
    purgatory, turns = step_by_step(slice_s)

    class Chained(Waiting):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def on_complete(self) -> None:
            super().on_complete()
            purgatory.check_and_complete("all")
            purgatory.check_and_complete(self.number + 1)

    operations = [Chained(number) for number in range(2_000)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["all", operation.number], 50)
    for operation in operations:
        operation.is_ready = True
    purgatory.check_and_complete(0)
    while turns:
        turns.pop(0)()
    assert {operation.completions for operation in operations} == {1}
    assert purgatory.delayed == 0
    assert not purgatory.watchers
