"""Judges the turns of one event loop: none may hold the loop longer than a bound, except for those that `EXCEPTIONS` names.

A turn is judged by the thread's time on a core plus the time that it was blocked (by a disk, by the interpreter's lock): the
length of the turn without the time that it waited for a core. So other processes on the machine make no turn long. The wait is
known from about 10 ms before the turn on, so on a busy machine a turn may seem shorter than it was by what was waited in these 10
ms.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from pybroker.metrics.histogram import Histogram
from pybroker.sharing.turns.exceptions import EXCEPTIONS
from pybroker.sharing.turns.rounds import LIMIT_NS as ROUND_LIMIT_NS
from pybroker.sharing.turns.rounds import LongRound, Rounds
from pybroker.sharing.turns.run_delay import RunDelay
from pybroker.sharing.turns.warner import Warner
from pybroker.sharing.turns.watch import Watch

logger = logging.getLogger(__name__)

LIMIT_NS: Final = 20_000_000
"""The bound on a turn, on a quiet machine."""

SWITCH: Final = "PYBROKER_LONG_TURNS"
FAIL: Final = "fail"
"""With this value of the environment variable SWITCH, a turn beyond the bound is an error in the log, and a broker that had one
ends with code 1: for tests. With `fail:N`, a turn of more than N ms is an error. Exceptions never are.
"""

GUEST: Final = "guest"
"""The phase of a loop that belongs to another program: the log has no lines about its rounds."""

_LOOK_SHARE: Final = 4
_NS_PER_MS: Final = 1_000_000

_of_threads: dict[int, Watchdog] = {}


class LongTurn(NamedTuple):
    """A turn that was looked at. `held_ns` is judged: `length_ns` without `waited_ns`, the time spent waiting for a core."""

    what: str
    held_ns: int
    length_ns: int
    waited_ns: int

    def __str__(self) -> str:
        held, waited = self.held_ns / _NS_PER_MS, self.waited_ns / _NS_PER_MS
        return f"{self.what} held the loop for {held:.1f} ms, and waited {waited:.1f} ms for a core"


class Watchdog:
    """The judge of one loop's turns. Belongs to the loop's thread; other threads may read its attributes.

    Args:
        limit_ns: the bound.
        on_long: called with each turn beyond the bound, unless it is an exception; by default it warns in the log.
        fail_ns: a turn longer than this is an error in the log, unless it is an exception; a smaller value than the bound is
        the bound, too. None: no turn is an error.

    Attributes:
        watch: times the turns.
        rounds: what the loop does in its rounds, and how long these are.
        lengths: the histogram of their lengths, without the time that the longer ones waited for a core.
        long_turns: the number of turns beyond the bound by what ran in them, without the exceptions.
        long_rounds: the number of rounds beyond their bound, except while there is a `phase`.
        excused_turns: the number of exceptions beyond the bound by their names.
        has_failed: whether a turn was an error.
        longest: the longest turn by what ran in it, of turns of a quarter of the bound or more.
        phase: the name for all turns from now on, or None for that of what runs in each.
    """

    def __init__(
        self, limit_ns: int = LIMIT_NS, on_long: Callable[[LongTurn], None] | None = None, *, fail_ns: int | None = None
    ) -> None:
        limit_ns = limit_ns if fail_ns is None else min(limit_ns, fail_ns)
        self.limit_ns = limit_ns
        warner = Warner(
            "A turn of the event loop was long, and no client was served meanwhile: %s; the bound is "
            f"{limit_ns // _NS_PER_MS} ms. Long turns of this kind since the last such line, which had no line of their own: %d"
        )
        self._on_long = on_long or (lambda turn: warner.warn(turn, turn.what))
        self._round_warner = Warner(
            "A round of the event loop was long, and clients waited for its end: %s; the bound is "
            f"{ROUND_LIMIT_NS // _NS_PER_MS} ms. Long rounds since the last such line, which had no line of their own: %d"
        )
        self._fail_ns = fail_ns
        self.has_failed = False
        self.lengths = Histogram()
        self.watch = Watch(self.lengths, max(limit_ns // _LOOK_SHARE, 1), self._look)
        self.long_rounds = 0
        self.rounds = Rounds(self.watch, lambda what: what if isinstance(what, str) else name_of(what), self._long_round)
        self.watch.noted = self.rounds.noted
        self.long_turns: dict[str, int] = {}
        self.excused_turns: dict[str, int] = {}
        self.longest: dict[str, LongTurn] = {}
        self.phase: str | None = None
        self._part_begun_ns = 0
        self._part_ns = 0
        self._part = ""
        self._delay: RunDelay | None = None

    @property
    def waited_ns(self) -> int:
        """How long the loop's thread has waited for a core since it began; 0 where that is unknown."""
        return 0 if self._delay is None else self._delay.waited_ns()

    def bind(self) -> None:
        """Watch the calling thread, until `unbind`."""
        self._delay = RunDelay()
        self.watch.bind(self._delay)
        gc.callbacks.append(self.watch.collection)
        _of_threads[threading.get_ident()] = self

    def unbind(self) -> None:
        """Stop watching the calling thread."""
        del _of_threads[threading.get_ident()]
        gc.callbacks.remove(self.watch.collection)
        if self._delay is not None:
            self._delay.close()

    def note(self, name: str, duration_ns: int) -> None:
        """Name the turn under way, if what has this name took longer than what was noted before in the same turn."""
        if self._part_begun_ns != self.watch.begun_ns:
            self._part_begun_ns, self._part_ns = self.watch.begun_ns, 0
        if duration_ns > self._part_ns:
            self._part_ns, self._part = duration_ns, name

    def _look(self, what: object, length_ns: int, *, waited_ns: int) -> int:
        held_ns = max(length_ns - waited_ns, 0)
        turn = LongTurn(self._name(what, length_ns), held_ns, length_ns, waited_ns)
        if turn.what not in self.longest or self.longest[turn.what].held_ns < held_ns:
            self.longest[turn.what] = turn
        if held_ns > self.limit_ns:
            counts = self.excused_turns if turn.what in EXCEPTIONS else self.long_turns
            counts[turn.what] = counts.get(turn.what, 0) + 1
            if counts is self.long_turns:
                self._report(turn)
        return held_ns

    def _long_round(self, one: LongRound) -> None:
        if self.phase is None:
            self.long_rounds += 1
            self._round_warner.warn(one)

    def _report(self, turn: LongTurn) -> None:
        if self._fail_ns is not None and turn.held_ns > self._fail_ns:
            self.has_failed = True
            logger.error("A turn of the event loop was too long, which %s makes a failure: %s", SWITCH, turn)
        else:
            self._on_long(turn)

    def _name(self, what: object, length_ns: int) -> str:
        if self.phase is not None:
            return self.phase
        if isinstance(what, str) and (what in EXCEPTIONS or what.startswith("garbage")):
            return what
        if self._part_begun_ns == self.watch.begun_ns and 2 * self._part_ns >= length_ns:
            return self._part
        return what if isinstance(what, str) else name_of(what)


def fail_ns() -> int | None:
    """Return from which length on a turn is a failure, as the environment asks; None: no turn is."""
    kind, _, limit_ms = os.environ.get(SWITCH, "").partition(":")
    if kind != FAIL:
        return None
    return int(limit_ms) * _NS_PER_MS if limit_ms else LIMIT_NS


def current() -> Watchdog | None:
    """Return the watchdog of the calling thread's loop, if it has one."""
    return _of_threads.get(threading.get_ident())


def watchdog_of(loop: Any) -> Watchdog:
    """Return the watchdog of a loop; a loop that has none gets one that nothing reads."""
    found: Watchdog | None = getattr(loop, "watchdog", None)
    if found is None:
        loop.watchdog = found = Watchdog(1 << 62)
        found.phase = GUEST
        found.rounds.call_soon = loop.call_soon
    return found


def name_of(callback: Any) -> str:
    """Return the name of a function, of a bound method, or of the coroutine whose step it is."""
    owner: Any = getattr(callback, "__self__", None)
    coroutine = owner.get_coro() if hasattr(owner, "get_coro") else None
    if coroutine is not None:
        return f"task {_place_of(coroutine)}"
    inner = getattr(callback, "func", None)
    if inner is not None:
        return name_of(inner)
    return str(getattr(callback, "__qualname__", type(callback).__qualname__))


def _place_of(coroutine: Any) -> str:
    """Return the module and the name of a coroutine's function: many have short names, such as `_rest`."""
    name = str(getattr(coroutine, "__qualname__", type(coroutine).__name__))
    code = getattr(coroutine, "cr_code", None)
    return name if code is None else f"{Path(code.co_filename).stem}.{name}"
