"""Runs work under the broker's watchdog, so that a test can assert that no turn of it is long.

What is judged is CPU time and time blocked, never the wall clock: other processes on the machine hardly make a turn long. They do
share its caches, its disk and its host. So such tests are marked `judges_time` and get several attempts, and a limit grows by as
much as the machine is slower now than a quiet one (`testing/slowness.py`). Without native parts it is three times as long.

    def test_a_pass_over_many_segments_gives_the_loop_back() -> None:
        turns = run_watched(lambda: the_pass(segments=10_000), limit_ms=20)
        assert turns.long_texts() == []

Work that needs no loop, such as the slices of a job of the log, is run piece by piece, each piece as one turn:

    with watched(limit_ms=20) as turns:
        while (step := next_step()) is not None:
            turns.run(step)
    assert turns.long_texts() == []
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pybroker.native import is_wanted
from pybroker.sharing.turns.loop import new_event_loop
from pybroker.sharing.turns.watch import Entry
from pybroker.sharing.turns.watchdog import LongTurn, Watchdog
from testing.garbage import frozen
from testing.slowness import slowness

LIMIT_MS = 50.0
"""The bound is 20 ms on a quiet machine. The faults that these tests look for take hundreds, and others share the machine."""

PURE_FACTOR = 3
"""The twins in Python take several times the time of the native parts. The bound is not for them."""

T = TypeVar("T")


class Turns:
    """The turns that a watchdog saw. `long` has the turns beyond the limit, in order, garbage collections included."""

    def __init__(self, limit_ms: float) -> None:
        self.limit_ms = limit_ms
        self.long: list[LongTurn] = []
        self.watchdog = Watchdog(int(limit_ms * 1_000_000), self.long.append)
        self.result: Any = None

    @property
    def count(self) -> int:
        """The number of turns."""
        return self.watchdog.lengths.count

    @property
    def longest(self) -> LongTurn | None:
        """The longest turn of a quarter of the limit or more; None if none was."""
        return max(self.watchdog.longest.values(), key=lambda turn: turn.held_ns, default=None)

    def long_texts(self, *but_not: str) -> list[str]:
        """Return what was long as texts, even for a machine that is as slow as this one is now.

        Left out are turns whose text has one of the words `but_not`, and garbage collections, which also go through the objects
        of the test.
        """
        apart = ("garbage collection", *but_not)
        found = [turn for turn in self.long if not any(word in str(turn) for word in apart)]
        if not found:
            return []
        limit_ns = self.limit_ms * 1_000_000 * slowness() * (1 if is_wanted() else PURE_FACTOR)
        return [str(turn) for turn in found if turn.held_ns > limit_ns]

    def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work` as a turn of its own, and return its result."""
        result: T = Entry(self.watchdog.watch, work)(*arguments)
        return result


@contextmanager
def watched(limit_ms: float = LIMIT_MS) -> Iterator[Turns]:
    """Watch the calling thread, which runs no watched loop. Objects that exist already count in no garbage collection."""
    turns = Turns(limit_ms)
    with frozen():
        turns.watchdog.bind()
        try:
            yield turns
        finally:
            turns.watchdog.unbind()


def run_watched(
    main: Callable[[], Coroutine[Any, Any, object]], *, limit_ms: float = LIMIT_MS, with_uvloop: bool = True
) -> Turns:
    """Run `main` in a loop of its own, watched from its first turn to its last. Its result is in `result`."""
    turns = Turns(limit_ms)
    with frozen(), asyncio.Runner(loop_factory=lambda: new_event_loop(turns.watchdog, with_uvloop=with_uvloop)) as runner:
        turns.result = runner.run(main())
    return turns
