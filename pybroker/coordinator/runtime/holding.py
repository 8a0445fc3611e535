"""Long work on a shard, in slices, between which the loop serves others. Whatever else is for the shard waits meanwhile.

So an operation sees the state before the work or after it, never in between, and the log has the records of operations in the
order in which they came. Work that ends within a slice holds up nothing: most does. A step has a hundred records or so, and small
work has no second step, so how busy the machine is never decides whether it is done at once.

What waits is served in one loop, however much it is: work in steps that was waiting returns to that loop, which serves the next.
The shard is held until nothing waits, so what comes because of a response waits behind what came before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from time import perf_counter
from typing import NoReturn

from pybroker import slicing
from pybroker.slicing import run_slice
from pybroker.turns.jobs import job

Failed = Callable[[Exception], None]
"""A callback that gets what was raised where there is no caller any more."""


class Holding:
    """What holds a shard, and what waits for it. `call_soon` runs its argument in the loop's next iteration.

    While `is_held`, whatever is for the shard must `wait`; only what is being served may `run` its work. When the shard is not
    held, nothing waits.
    """

    __slots__ = ("_call_soon", "_end", "_is_serving", "_is_unfinished", "_waiting", "is_held")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: deque[tuple[Callable[[], None], Failed]] = deque()
        self._end = 0.0  # of the slice under way, which the work and what is served after it share
        self._is_unfinished = False  # work is continued in a later turn
        self._is_serving = False
        self.is_held = False

    def run(self, work: Generator[None, None, None], failed: Failed) -> None:
        """Run `work`, which yields wherever others may get their turn, and then what has waited meanwhile.

        An exception of the first slice goes to the caller, one of a later slice to `failed`.
        """
        if not self._is_serving:
            assert not self.is_held, "what comes for a shard that is held waits"
            self.is_held = True
            self._end = perf_counter() + slicing.SLICE_S
        is_over = True
        try:
            is_over, _ = run_slice(work, self._end)
        finally:
            self._end_slice(work, failed, is_over=is_over)

    def wait(self, work: Callable[[], None], failed: Failed) -> None:
        """Call `work` when the shard is free; an exception of it goes to `failed`."""
        self._waiting.append((work, failed))

    def pause(self) -> None:
        """Let what comes for the shard wait until the next turn, unless the shard is held anyway."""
        if not self.is_held:
            self.is_held = True
            self._call_soon(self._serve_later)

    @job("long work of a coordinator")
    def _continue(self, work: Generator[None, None, None], failed: Failed) -> None:
        self._end = perf_counter() + slicing.SLICE_S
        is_over = True
        try:
            is_over, _ = run_slice(work, self._end)
        except Exception as error:
            self._report(failed, error)
        finally:
            self._end_slice(work, failed, is_over=is_over)

    def _end_slice(self, work: Generator[None, None, None], failed: Failed, *, is_over: bool) -> None:
        self._is_unfinished = not is_over
        if not is_over:
            self._call_soon(partial(self._continue, work, failed))
        elif not self._is_serving:
            self._serve()

    @job("long work of a coordinator")
    def _serve_later(self) -> None:
        self._end = perf_counter() + slicing.SLICE_S
        self._serve()

    def _serve(self) -> None:
        """Do what has waited until the slice ends, or until work remains unfinished; the rest in the next turn."""
        waiting = self._waiting
        self._is_serving = True
        try:
            while waiting and not self._is_unfinished:
                work, failed = waiting.popleft()
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

    def _report(self, failed: Failed, error: Exception) -> None:
        try:
            failed(error)
        except Exception as unexpected:  # the others must be served; the loop logs it
            self._call_soon(partial(_raise, unexpected))


def _raise(error: Exception) -> NoReturn:
    raise error
