"""Rounds of the loop are measured, and long ones reported. The clock is the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import thread_time

import pytest

from pybroker.metrics.histogram import Histogram
from pybroker.turns.loop import new_event_loop
from pybroker.turns.rounds import LIMIT_NS, LongRound, Rounds
from pybroker.turns.watch import Watch
from pybroker.turns.watchdog import Watchdog

TURN_NS = 1_250_000


class Scene:
    """Rounds on a clock and a loop of the test: `round` does what a loop does in one."""

    def __init__(self) -> None:
        self.ns = 0
        self.due: list[Callable[[], None]] = []
        self.long: list[LongRound] = []
        self.rounds = Rounds(Watch(Histogram(), 1 << 62, lambda what, length_ns, *, waited_ns: length_ns), str, self.long.append)
        self.rounds.now_ns = lambda: self.ns
        self.rounds.call_soon = self.due.append

    def round(self) -> None:
        """Do what is due."""
        due, self.due[:] = list(self.due), []
        for callback in due:
            callback()


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


@pytest.mark.judges_time
@pytest.mark.parametrize("with_uvloop", [True, False])
def test_many_short_turns_that_come_at_once_are_one_long_round(caplog: pytest.LogCaptureFixture, *, with_uvloop: bool) -> None:
    def turn() -> None:
        end_s = thread_time() + 0.015
        while thread_time() < end_s:
            pass

    async def come() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(6):
            loop.call_soon(turn)
        for _ in range(3):
            await asyncio.sleep(0)

    watchdog = Watchdog(1 << 62)
    loop = new_event_loop(watchdog, with_uvloop=with_uvloop)
    loop.run_until_complete(come())
    loop.close()
    assert watchdog.long_rounds >= 1
    assert watchdog.rounds.lengths.count >= 1
    assert "A round of the event loop was long" in caplog.text
    assert "turn (" in caplog.text
