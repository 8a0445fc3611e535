"""Counts the steps of long work, so that a test can assert that no step grows with the work, whatever the time it takes."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


def steps_of(work: Generator[Any, None, Result]) -> tuple[int, Result]:
    """Run all of `work`; return how many steps it has, and its result."""
    steps = 0
    while True:
        try:
            next(work)
        except StopIteration as stopped:
            return steps, stopped.value
        steps += 1
