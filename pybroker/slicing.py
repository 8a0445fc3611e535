"""Long work in slices: a generator that yields wherever others may get their turn, and how far it is run at a time.

It knows no event loop, so every layer may use it. `api/slices.py` makes a response of such work, and `metadata/slices.py` a
coroutine.
"""

from __future__ import annotations

from collections.abc import Generator
from time import perf_counter
from typing import Final, TypeVar

Result = TypeVar("Result")

SLICE_S: Final = 0.005
"""The time that work may hold the loop before others get their turn. A step that has begun is finished."""


def run_slice(work: Generator[None, None, Result]) -> tuple[bool, Result | None]:
    """Run one slice of `work`; return whether it has ended, and what it returned then."""
    end = perf_counter() + SLICE_S
    try:
        while True:
            next(work)
            if perf_counter() >= end:
                return False, None
    except StopIteration as stopped:
        return True, stopped.value


def run_through(work: Generator[None, None, Result]) -> Result:
    """Run all of `work` at once, where no other work waits, and return what it returns."""
    while True:
        try:
            next(work)
        except StopIteration as stopped:
            result: Result = stopped.value
            return result
