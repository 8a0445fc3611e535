"""Long work on a shard, in slices, between which the loop serves others. Other operations on the same parts of the shard wait.

So an operation sees the state before the work or after it, never in between, and the log has the records of operations on a
part in the order in which they came. Most work ends within a slice and holds up nothing. Small work does not
yield, so how busy the machine is never decides whether it is done at once.

Parts
    An operation may name the parts of the shard that it reads and changes, such as a group; without names it is about all of the
    shard. Between two slices, an operation that shares no part with the work that holds the shard, nor with what
    waits, passes: it is done ahead of them. If the work of an operation that passes yields, the rest waits, and
    its parts with it. `docs/design/groups.md` has the proof that this changes no state that a client or the log could show.

Waiting operations are served in one loop, however many they are: work in slices that was waiting returns to that loop, which
serves the next. The shard is held until nothing waits, so what comes because of a response waits behind what came before it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Hashable
from functools import partial
from time import perf_counter
from typing import Final, NoReturn

from pybroker.sharing import work as sharing
from pybroker.sharing.work import run_slice
from pybroker.turns.jobs import job

Failed = Callable[[Exception], None]
"""A callback that gets what was raised where there is no caller any more."""


Parts = Collection[Hashable]
"""The names of parts of a shard."""

_ALL: Final = object()
_ALL_PARTS: Final = frozenset({_ALL})


class Holding:
    """The work that holds a shard, and the operations that wait for it. `call_soon` runs its argument in the loop's next
    iteration.

    While `is_held`, what is for the shard must `wait` unless it `may_pass`; only what passes or is being served may `run` its
    work. When the shard is not held, nothing waits.
    """

    __slots__ = (
        "_call_soon", "_end", "_held_parts", "_is_in_slice", "_is_serving", "_is_unfinished", "_waiting", "_waiting_parts",
        "is_held",
    )  # fmt: skip

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: deque[tuple[Callable[[], None], Failed, Parts]] = deque()
        self._waiting_parts: Counter[Hashable] = Counter()  # the number of those in `_waiting` that name a part
        self._held_parts: Parts = ()  # of the work that is continued in a later turn
        self._is_in_slice = False  # work for the shard is under way in this turn
        self._end = 0.0  # of the slice under way, which the work and what is served after it share
        self._is_unfinished = False  # work is continued in a later turn
        self._is_serving = False
        self.is_held = False

    def may_pass(self, parts: Parts | None) -> bool:
        """Return whether an operation on these parts may be done now, ahead of what holds the shard and of what waits for it."""
        if parts is None or self._is_in_slice:
            return False
        held, waiting = self._held_parts, self._waiting_parts
        if _ALL in held or waiting[_ALL]:
            return False
        return not any(part in held or waiting[part] for part in parts)

    def run(self, work: Generator[None, None, None], failed: Failed, parts: Parts | None = None) -> None:
        """Run `work` on these parts of the shard, or on all of it, and then what has waited meanwhile. `work` yields wherever
        others may get their turn.

        An exception of the first slice goes to the caller, one of a later slice to `failed`.
        """
        if self.is_held and not self._is_serving:
            self._pass(work, failed, parts)
            return
        if not self._is_serving:
            self.is_held = self._is_in_slice = True
            self._end = perf_counter() + sharing.SLICE_S
        is_over = True
        try:
            is_over, _, _ = run_slice(work, self._end)
        finally:
            self._end_slice(work, failed, _named(parts), is_over=is_over)

    def _pass(self, work: Generator[None, None, None], failed: Failed, parts: Parts | None) -> None:
        assert self.may_pass(parts), "what comes for a part of a shard that is held waits"
        is_over = True
        self._is_in_slice = True
        try:
            is_over, _, _ = run_slice(work, 0.0)  # one step
        finally:
            self._is_in_slice = False
            if not is_over:
                self.wait(partial(self.run, work, failed, parts), failed, parts)

    def wait(self, work: Callable[[], None], failed: Failed, parts: Parts | None = None) -> None:
        """Call `work`, which is about these parts of the shard, or about all of it, when the shard is free; an exception of it
        goes to `failed`.
        """
        named = _named(parts)
        self._waiting.append((work, failed, named))
        self._waiting_parts.update(named)

    def pause(self) -> None:
        """Let what comes for the shard wait until the next turn, unless the shard is held anyway."""
        if not self.is_held:
            self.is_held = True
            self._call_soon(self._serve_later)

    @job("long work of a coordinator")
    def _continue(self, work: Generator[None, None, None], failed: Failed, parts: Parts) -> None:
        self._is_in_slice = True
        self._end = perf_counter() + sharing.SLICE_S
        is_over = True
        try:
            is_over, _, _ = run_slice(work, self._end)
        except Exception as error:
            self._report(failed, error)
        finally:
            self._end_slice(work, failed, parts, is_over=is_over)

    def _end_slice(self, work: Generator[None, None, None], failed: Failed, parts: Parts, *, is_over: bool) -> None:
        self._is_unfinished = not is_over
        self._held_parts = () if is_over else parts
        if not is_over:
            self._call_soon(partial(self._continue, work, failed, parts))
        if self._is_serving:
            return
        try:
            if is_over:
                self._serve()
        finally:
            self._is_in_slice = False

    @job("long work of a coordinator")
    def _serve_later(self) -> None:
        self._is_in_slice = True
        self._end = perf_counter() + sharing.SLICE_S
        try:
            self._serve()
        finally:
            self._is_in_slice = False

    def _serve(self) -> None:
        """Do what has waited until the slice ends, or until work remains unfinished; the rest in the next turn."""
        waiting = self._waiting
        self._is_serving = True
        try:
            while waiting and not self._is_unfinished:
                work, failed, parts = waiting.popleft()
                self._forget(parts)
                try:
                    work()
                except Exception as error:
                    self._report(failed, error)
                if perf_counter() >= self._end:
                    break
        finally:  # whatever was raised, nothing is left behind
            self._is_serving = False
            self.is_held = self._is_unfinished or bool(waiting)
            if waiting and not self._is_unfinished:
                self._call_soon(self._serve_later)

    def _forget(self, parts: Parts) -> None:
        """Note that what is about these parts waits no longer."""
        counts = self._waiting_parts
        counts.subtract(parts)
        for part in parts:
            if not counts[part]:
                del counts[part]

    def _report(self, failed: Failed, error: Exception) -> None:
        try:
            failed(error)
        except Exception as unexpected:  # the others must be served; the loop logs it
            self._call_soon(partial(_raise, unexpected))


def _named(parts: Parts | None) -> Parts:
    return _ALL_PARTS if parts is None else parts


def _raise(error: Exception) -> NoReturn:
    raise error
