"""Long work in slices: a generator that yields wherever others may get their turn, and how far it is run at a time.

Work may also yield what waits for a disk, for a thread to run (`ThreadedWork`), which raises nothing but bugs. And it may yield
what it waits for itself (`Work`): it continues when that is done, and looks at the result, if there is one.

It knows no event loop, so every layer may use it. `api/slices.py` makes a response of such work, and `metadata/slices.py` a
coroutine.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from time import perf_counter
from typing import Any, Final, Protocol, TypeVar

Result = TypeVar("Result")
Step = TypeVar("Step")
Element = TypeVar("Element")

SLICE_S: Final = 0.005
"""The time that work may hold the loop before others get their turn. A step that has begun is finished."""


_PORTION: Final = 200


class Wait(Protocol):
    """A Future, or an operation that calls back as a Future does: work may wait for it."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> object:
        """Call `callback` when it is done, with any argument."""


ThreadedWork = Generator[Callable[[], None] | None, None, Result]
Work = Generator[Callable[[], None] | Wait | None, None, Result]


def portions(elements: Sequence[Element]) -> Iterator[Sequence[Element]]:
    """Yield `elements` a few at a time, so that work can yield after each portion; few of them at once, without a copy."""
    if len(elements) <= _PORTION:
        yield elements
    else:
        for start in range(0, len(elements), _PORTION):
            yield elements[start : start + _PORTION]


def run_slice(work: Generator[None, None, Result], end: float | None = None) -> tuple[bool, Result | None]:
    """Run one slice of `work`, until `end` (`perf_counter`) if it shares the slice; return whether it has ended, and what it
    returned then.
    """
    ended, _, result = run_threaded_slice(work, end)
    return ended, result


def run_threaded_slice(work: Generator[Step, None, Result], end: float | None = None) -> tuple[bool, Step | None, Result | None]:
    """Run one slice of `work`, or less if it yields what comes before the next one; return whether it has ended, what it yielded
    for a thread or waits for, and what it returned.
    """
    if end is None:
        end = perf_counter() + SLICE_S
    try:
        while True:
            step = next(work)
            if step is not None or perf_counter() >= end:
                return False, step, None
    except StopIteration as stopped:
        return True, None, stopped.value


def run_through(work: ThreadedWork[Result]) -> Result:
    """Run all of `work` at once, where no other work waits, and return what it returns."""
    while True:
        try:
            step = next(work)
        except StopIteration as stopped:
            result: Result = stopped.value
            return result
        if step is not None:
            step()


def emptied(*collections: list[Any] | dict[Any, Any] | set[Any], count: int = 1_000) -> Generator[None, None, None]:
    """Empty collections, one after the other, and yield after `count` elements: to free many at once is one long step."""
    for elements in collections:
        while elements:
            if isinstance(elements, list):
                del elements[-count:]
            else:
                take = elements.pop if isinstance(elements, set) else elements.popitem
                for _ in range(min(count, len(elements))):
                    take()
            yield


class Pace:
    """Counts what a generator does, which yields after about `count` of it."""

    __slots__ = ("_count", "_done")

    def __init__(self, count: int) -> None:
        self._count = count
        self._done = 0

    def is_due(self, done: int = 1) -> bool:
        """Count what was done; return whether to yield now."""
        self._done += done
        if self._done < self._count:
            return False
        self._done = 0
        return True
