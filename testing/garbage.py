"""Garbage collections of a test process, which has all tests and what they import.

A full collection goes through all objects: 600,000 for the modules and items of all unit tests, which is longer than most tests.
So what there is when the tests have been found is frozen, and so is what a test leaves to the next one, after a collection that
goes through nothing else. Cycles among frozen objects remain, so that from time to time all objects are looked at.

Objects that are frozen are invisible to `gc.get_referrers`, by which hypothesis finds out whether a generator of random numbers
will live. It asks once for each generator, at its first draw.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from pybroker.sharing.turns import garbage

TESTS_MAX: Final = 2000
"""After this many tests all objects are looked at, for about a second."""

_tests: int | None = None


@contextmanager
def none_while_tests_are_found() -> Iterator[None]:
    """Collect nothing, because what is made lives as long as the process; then freeze it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
    _draw()
    end_test()


def end_test() -> None:
    """Collect what the test before has left, and freeze what remains. Stop what a broker in this process freezes by itself."""
    global _tests  # noqa: PLW0603 (a process has one heap)
    if garbage.is_freezing():
        garbage.stop_freezing()
    _tests = (_tests or 0) + 1
    if _tests % TESTS_MAX == 0:
        gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextmanager
def frozen() -> Iterator[None]:
    """Freeze all objects that there are, so that no collection goes through them. Between tests they are looked at again."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if _tests is None:
            gc.unfreeze()


@given(st.none())
def _draw(_nothing: None) -> None:
    """Let hypothesis meet the generators of the modules that are there."""
