"""Garbage collections stay short, whatever lives long, and young garbage is still collected."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from pybroker.turns.garbage import THRESHOLDS, keep_collections_short, stop_freezing
from testing.turns import Turns, watched

STEPS, OBJECTS = 40, 25_000


class Node:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def turns() -> Iterator[Turns]:
    thresholds = gc.get_threshold()
    with watched(limit_ms=20) as turns:
        yield turns
    gc.set_threshold(*thresholds)


def grow(turns: Turns) -> list[str]:
    """Make a million objects that live long; return the long collections."""
    kept: list[list[list[int]]] = []
    for _ in range(STEPS):
        turns.run(lambda: kept.append([[number] for number in range(OBJECTS)]))
    return [str(turn) for turn in turns.long if "garbage" in str(turn)]


def test_collections_stay_short_while_long_lived_objects_are_made(turns: Turns) -> None:
    keep_collections_short()
    try:
        assert grow(turns) == []
    finally:
        stop_freezing()


def test_without_it_they_do_not(turns: Turns) -> None:
    gc.set_threshold(*THRESHOLDS)
    assert grow(turns)


def test_garbage_is_collected_as_before(turns: Turns) -> None:
    keep_collections_short()
    try:
        grow(turns)
        node = weakref.ref(Node())
        assert node() is not None
        gc.collect()
        assert node() is None
    finally:
        stop_freezing()
