"""Long work: a generator that yields wherever others may get their turn, and how far it is run at a time.

What work yields
    None       a pause: others may get their turn. The runner looks at the clock, so work may yield as often as is convenient.
    a function to run in a thread, which raises nothing but bugs
    a `Wait`   it continues when that is done, and looks at the result, if there is one

It knows no event loop, so every layer may use it. `sharing/loop.py` makes a response of such work, and `sharing/background.py`
runs what the broker itself has to do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from math import inf
from time import perf_counter
from typing import Any, Final, Protocol, TypeVar

Result = TypeVar("Result")
Step = TypeVar("Step")
Element = TypeVar("Element")

SLICE_S: Final = 0.005
"""A slice: the time that work has in a turn. It may take longer, because only a `yield` ends it."""


_PORTION: Final = 200


class Wait(Protocol):
    """A Future, or an operation that calls back as a Future does: work may wait for it."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> object:
        """Call `callback` when it is done, with any argument."""


Work = Generator[Callable[[], None] | Wait | None, None, Result]
Pausing = Generator[None, None, Result]
"""Work that waits for nothing: what runs it does not have to look at what it yields."""


class ThreadRunner(Protocol):
    """Runs blocking work outside of the loop."""

    def __call__(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        """Run `work` in a thread; then call `done` on the loop with the OSError that it raised, or None.

        `done` is always called: any other exception of `work` is a bug, which is logged and passed to `done` as an OSError.
        """


def run_inline(work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
    """Run `work` as a `ThreadRunner` without threads, for tests, start and stop."""
    try:
        work()
    except OSError as error:
        done(error)
    else:
        done(None)


class InThread:
    """A `Wait` for blocking work in a certain thread, which begins when it is waited for. `error` is what it raised."""

    __slots__ = ("error", "run", "work")

    def __init__(self, run: ThreadRunner, work: Callable[[], None]) -> None:
        self.run = run
        self.work = work
        self.error: OSError | None = None

    def add_done_callback(self, callback: Callable[[InThread], object], /) -> None:
        """Begin, and call `callback` on the loop at the end."""

        def done(error: OSError | None) -> None:
            self.error = error
            callback(self)

        self.run(self.work, done)


def in_thread(run: ThreadRunner, work: Callable[[], None]) -> Generator[InThread, None, None]:
    """Wait for blocking work in a certain thread. Raises the OSError that it raises."""
    wait = InThread(run, work)
    yield wait
    if wait.error is not None:
        raise wait.error


class WorkRunner(Protocol):
    """Runs long work of the broker itself on the loop, in slices."""

    def __call__(self, name: str, work: Work[None], /) -> None:
        """Run `work` some time after the return, or close it when the broker stops. `name` shows a person what it is."""


def run_unshared(_name: str, work: Work[None]) -> None:
    """Run work as a `WorkRunner` that gives no others their turn, for tests, start and stop."""

    def proceed(_done: object = None) -> None:
        ended = False
        while not ended:
            ended, step, _ = run_slice(work, inf)
            if callable(step):
                step()
            elif step is not None:
                step.add_done_callback(proceed)
                return

    proceed()


def portions(elements: Sequence[Element]) -> Iterator[Sequence[Element]]:
    """Yield `elements` a few at a time, so that work can yield in between; few of them at once, without a copy."""
    if len(elements) <= _PORTION:
        yield elements
    else:
        for start in range(0, len(elements), _PORTION):
            yield elements[start : start + _PORTION]


def slice_end() -> float:
    """Return the time (`perf_counter`) at which a slice that begins now is over."""
    return perf_counter() + SLICE_S


def run_slice(
    work: Generator[Step, None, Result], end: float | None = None, now: Callable[[], float] | None = None
) -> tuple[bool, Step | None, Result | None]:
    """Run `work` until it ends, yields something other than None, or the clock `now` reaches `end`.

    By default `end` is `SLICE_S` from now. Return whether it ended, what it yielded, and what it returned.
    """
    now = now or perf_counter
    if end is None:
        end = now() + SLICE_S
    try:
        while True:
            step = next(work)
            if step is not None or now() >= end:
                return False, step, None
    except StopIteration as stopped:
        return True, None, stopped.value


def run_through(work: Generator[Callable[[], None] | Any | None, None, Result]) -> Result:
    """Run all of `work` at once, where no other work waits, and return what it returns. It may not wait for anything."""
    while True:
        ended, step, result = run_slice(work, inf)
        if ended:
            return result  # type: ignore[return-value]  # what the work returned
        assert step is not None
        step()


def while_wanted(is_wanted: Callable[[], bool], work: Generator[Step, None, Result]) -> Generator[Step, None, Result | None]:
    """Do `work` for as long as `is_wanted()` holds before each part of it, and return what it returns; None if it was ended."""
    while is_wanted():
        try:
            step = next(work)
        except StopIteration as stopped:
            result: Result = stopped.value
            return result
        yield step
    work.close()
    return None


def emptied(*collections: list[Any] | dict[Any, Any] | set[Any]) -> Pausing[None]:
    """Empty collections, one after the other, and yield after some elements: to free many at once is one long turn."""
    for elements in collections:
        while elements:
            if isinstance(elements, list):
                del elements[-_PORTION:]
            else:
                take = elements.pop if isinstance(elements, set) else elements.popitem
                for _ in range(min(_PORTION, len(elements))):
                    take()
            yield
