"""Work in a mailbox is done once and in its order, whatever fails among it, and shares a slice with what follows it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from pybroker.sharing import mailbox as mailbox_module
from pybroker.sharing import work
from pybroker.sharing.mailbox import Mailbox
from pybroker.sharing.work import Pausing

MANY = 2_000


class Scene:
    """A mailbox and its loop. `raised` gets the exceptions of a turn, as the exception handler of a loop does."""

    def __init__(self) -> None:
        self.next_turn: list[Callable[[], None]] = []
        self.mailbox = Mailbox(self.next_turn.append, "work of a test")
        self.done: list[object] = []
        self.raised: list[BaseException] = []

    def turn(self) -> None:
        try:
            self.next_turn.pop(0)()
        except BaseException as error:
            self.raised.append(error)

    def turns(self) -> int:
        for count in itertools.count():
            if not self.next_turn:
                return count
            self.turn()
        raise AssertionError

    def long(self, what: object, steps: int = 3) -> Callable[[], Pausing[None]]:
        def work() -> Pausing[None]:
            for _ in range(steps):
                yield
            self.done.append(what)

        return work

    def short(self, what: object) -> Callable[[], None]:
        return lambda: self.done.append(what)

    def failed(self, error: Exception) -> None:
        self.done.append(type(error))


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_work_that_fits_into_a_slice_is_done_at_once(scene: Scene) -> None:
    scene.mailbox.run(scene.long("a"), scene.failed)
    scene.mailbox.run(scene.short("b"), scene.failed)
    assert (scene.done, scene.next_turn, scene.mailbox.is_busy) == (["a", "b"], [], False)


def test_what_comes_during_long_work_waits_in_its_order(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "SLICE_S", 0.0)
    scene.mailbox.run(scene.long("a"), scene.failed)
    scene.mailbox.run(scene.short("b"), scene.failed)
    scene.mailbox.add(scene.long("c"), scene.failed)
    assert (scene.done, scene.mailbox.is_busy) == ([], True)
    assert scene.turns() >= 6
    assert (scene.done, scene.mailbox.is_busy) == (["a", "b", "c"], False)


def test_what_is_added_is_not_done_in_this_turn(scene: Scene) -> None:
    scene.mailbox.add(scene.short("a"), scene.failed)
    scene.mailbox.run(scene.short("b"), scene.failed)
    assert scene.done == []
    assert scene.turns() == 1
    assert scene.done == ["a", "b"]


def test_what_work_gives_to_its_mailbox_is_done_behind_the_others(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "SLICE_S", 0.0)
    scene.mailbox.run(scene.long("a"), scene.failed)
    scene.mailbox.run(lambda: scene.mailbox.run(scene.short("c"), scene.failed), scene.failed)
    scene.mailbox.run(scene.short("b"), scene.failed)
    scene.turns()
    assert scene.done == ["a", "b", "c"]


def test_a_failure_ends_its_work_and_no_other(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise ValueError

    def fails_later() -> Pausing[None]:
        yield
        raise KeyError

    def not_even_that(_error: Exception) -> None:
        raise OSError("the log is full")

    monkeypatch.setattr(work, "SLICE_S", 0.0)
    scene.mailbox.run(fails_later, scene.failed)
    for number in range(MANY):
        scene.mailbox.run(scene.short(number), scene.failed)
    scene.mailbox.run(fails, scene.failed)
    scene.mailbox.run(fails, not_even_that)
    scene.mailbox.run(scene.short("last"), scene.failed)
    scene.turns()
    assert scene.done == [KeyError, *range(MANY), ValueError, "last"]
    assert [type(error) for error in scene.raised] == [OSError], "the loop gets it"


def test_what_interrupts_a_turn_leaves_nothing_behind(scene: Scene) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    scene.mailbox.add(interrupted, scene.failed)
    scene.mailbox.add(scene.short("next"), scene.failed)
    scene.turns()
    assert (scene.done, scene.mailbox.is_busy) == (["next"], False)
    assert [type(error) for error in scene.raised] == [KeyboardInterrupt]


def test_all_that_is_done_in_a_turn_shares_one_slice(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(work, "SLICE_S", 100)
    for module in (work, mailbox_module):
        monkeypatch.setattr(module, "perf_counter", lambda: next(clock))  # each look takes a unit
    for number in range(MANY):
        scene.mailbox.add(scene.long(number, 1), scene.failed)
    while scene.next_turn:
        before = next(clock)
        scene.turn()
        assert next(clock) - before <= 105
    assert scene.done == list(range(MANY))
