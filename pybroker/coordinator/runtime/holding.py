"""Long work on a shard, in slices, between which the loop serves others. Whatever else is for the shard waits meanwhile.

So an operation sees the state before the work or after it, never in between, and the log has the records of operations in the
order in which they came. Work that ends within a slice holds up nothing: most does. A step has a hundred records or so, and small
work has no second step, so how busy the machine is never decides whether it is done at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter

from pybroker import slicing
from pybroker.slicing import run_slice
from pybroker.turns.jobs import job

Failed = Callable[[Exception], None]
"""A callback that gets what was raised where there is no caller any more."""


class Holding:
    """What holds a shard, and what waits for it. `call_soon` runs its argument in the loop's next iteration.

    While `is_held`, whatever is for the shard must `wait`.
    """

    __slots__ = ("_call_soon", "_waiting", "is_held")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: deque[tuple[Callable[[], None], Failed]] = deque()
        self.is_held = False

    def run(self, work: Generator[None, None, None], failed: Failed) -> None:
        """Run `work`, which yields wherever others may get their turn, and then what has waited meanwhile.

        An exception of the first slice goes to the caller, one of a later slice to `failed`.
        """
        self.is_held = True
        is_over = True
        try:
            is_over, _ = run_slice(work)
        finally:
            if is_over:
                self._serve()
            else:
                self._call_soon(lambda: self._continue(work, failed))

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
        is_over = True
        try:
            is_over, _ = run_slice(work)
        except Exception as error:
            failed(error)
        if is_over:
            self._serve()
        else:
            self._call_soon(lambda: self._continue(work, failed))

    @job("long work of a coordinator")
    def _serve_later(self) -> None:
        self._serve()

    def _serve(self) -> None:
        """Do what has waited, for a slice at a time, until something holds the shard again."""
        self.is_held = False
        waiting = self._waiting
        end = perf_counter() + slicing.SLICE_S if waiting else 0.0
        while waiting and not self.is_held:
            work, failed = waiting.popleft()
            try:
                work()
            except Exception as error:
                failed(error)
            if waiting and not self.is_held and perf_counter() >= end:
                self.is_held = True  # what comes now waits behind the others
                self._call_soon(self._serve_later)
                return
