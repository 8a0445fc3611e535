"""A round of the loop has a budget: what it does not allow waits for a later round, in its order. The clock is the test's."""

from __future__ import annotations

from collections.abc import Callable

from pybroker.metrics.histogram import Histogram
from pybroker.sharing.turns.rounds import BUDGET_NS, LIMIT_NS, SHORT_NS, UNKNOWN_NS, LongRound, Rounds
from pybroker.sharing.turns.watch import Watch

TURN_NS = BUDGET_NS // 4


class Scene:
    """Rounds on a clock and a loop of the test: `round` does what a loop does in one."""

    def __init__(self) -> None:
        self.ns = 0
        self.due: list[Callable[[], None]] = []
        self.long: list[LongRound] = []
        self.done: list[str] = []
        self.rounds = Rounds(Watch(Histogram(), 1 << 62, lambda what, length_ns, *, waited_ns: length_ns), str, self.long.append)
        self.rounds.now_ns = lambda: self.ns
        self.rounds.call_soon = self.due.append

    def put_off(self, name: str, *, ends: bool = False) -> None:
        def piece() -> bool:
            self._do(name)
            return ends

        self.rounds.later(piece)

    def put_off_turn(self, name: str, probably_ns: int = UNKNOWN_NS) -> None:
        self.rounds.turn_later(lambda: self._do(name), probably_ns)

    def _do(self, name: str) -> None:
        self.ns += TURN_NS
        self.done.append(name)

    def round(self) -> str:
        """Do what is due, and return the names of what was done."""
        due, self.due[:] = list(self.due), []
        self.done.clear()
        for callback in due:
            callback()
        return "".join(self.done)


def test_a_round_does_what_was_put_off_for_its_budget_and_the_rest_later() -> None:
    scene = Scene()
    for name in "abcdef":
        scene.put_off(name)
    for name in "ABCDEFGHIJ":
        scene.put_off_turn(name)
    assert [scene.round(), scene.round(), scene.round()] == ["ABCDabcd", "EFGHef", "IJ"]
    assert (scene.round(), scene.due, len(scene.rounds)) == ("", [], 0)


def test_a_turn_waits_only_behind_turns_that_probably_take_about_as_long() -> None:
    scene = Scene()
    for name in "ABCDEFGH":
        scene.put_off_turn(name)
    scene.put_off_turn("s", SHORT_NS)
    scene.put_off_turn("t", SHORT_NS)
    assert [scene.round(), scene.round(), scene.round()] == ["stAB", "CDEF", "GH"]


def test_each_queue_has_its_share_of_a_round() -> None:
    scene = Scene()
    for name in "LMN":
        scene.put_off_turn(name)
    for name in "stuvw":
        scene.put_off_turn(name, SHORT_NS)
    assert [scene.round(), scene.round(), scene.round()] == ["stLM", "uvN", "w"]


def test_work_that_runs_in_the_next_round_ends_this_one() -> None:
    scene = Scene()
    scene.put_off("a", ends=True)
    scene.put_off("b")
    assert [scene.round(), scene.round()] == ["a", "b"]


def test_a_long_round_is_reported_with_the_turns_that_took_the_most() -> None:
    scene = Scene()
    for _ in range(3):
        scene.rounds.noted("bytes in", TURN_NS)
    scene.rounds.noted("a timer", 2 * LIMIT_NS)
    scene.ns += 2 * LIMIT_NS + 3 * TURN_NS
    scene.round()
    (one,) = scene.long
    assert [str(kind) for kind in one.kinds] == ["a timer (1 turns, 100.0 ms)", "bytes in (3 turns, 3.8 ms)"]
    assert scene.rounds.lengths.count == 1


def test_a_round_within_the_bound_is_counted_and_not_reported() -> None:
    scene = Scene()
    scene.rounds.noted("bytes in", TURN_NS)
    scene.ns += LIMIT_NS
    scene.round()
    assert (scene.long, scene.rounds.lengths.count) == ([], 1)
