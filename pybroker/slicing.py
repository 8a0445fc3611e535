"""Long work in slices: a generator that yields wherever others may get their turn, and how far it is run at a time.

Work may also yield what waits for a disk, for a thread to run (`ThreadedWork`), which raises nothing but bugs.

It knows no event loop, so every layer may use it. `api/slices.py` makes a response of such work, and `metadata/slices.py` a
coroutine.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from time import perf_counter
from typing import Any, Final, TypeVar

Result = TypeVar("Result")
Element = TypeVar("Element")

SLICE_S: Final = 0.005
"""The time that work may hold the loop before others get their turn. A step that has begun is finished."""


ThreadedWork = Generator[Callable[[], None] | None, None, Result]


def run_slice(work: Generator[None, None, Result], end: float | None = None) -> tuple[bool, Result | None]:
    """Run one slice of `work`, until `end` (`perf_counter`) if it shares the slice; return whether it has ended, and what it
    returned then.
    """
    ended, _, result = run_threaded_slice(work, end)
    return ended, result


def run_threaded_slice(
    work: ThreadedWork[Result], end: float | None = None
) -> tuple[bool, Callable[[], None] | None, Result | None]:
    """Run one slice of `work`, or less if it yields what a thread must run; return whether it has ended, what to run before the
    next slice, and what it returned.
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


def take_apart(elements: list[Element], count: int = 1_000) -> Iterator[list[Element]]:
    """Take a list apart from its end, and yield `count` elements at a time: to free a long list at once is one long step."""
    while elements:
        some = elements[-count:]
        del elements[-count:]
        yield some


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
