"""Garbage collections stay short, whatever lives long, and young garbage is still collected."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Mapping
from time import thread_time_ns

import pytest

from pybroker.sharing.turns.garbage import THRESHOLDS, keep_collections_short, stop_freezing
from testing.garbage import frozen

STEPS, OBJECTS = 40, 25_000


class Node:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """Note the CPU time of each collection in ns."""
    thresholds = gc.get_threshold()
    lengths: list[int] = []
    begun_ns = [0]

    def note(phase: str, _details: Mapping[str, int]) -> None:
        if phase == "start":
            begun_ns[0] = thread_time_ns()
        else:
            lengths.append(thread_time_ns() - begun_ns[0])

    with frozen():
        gc.collect()  # else the collector waits for a quarter of the objects that it saw last, which may be those of other tests
        gc.callbacks.append(note)
        yield lengths
        gc.callbacks.remove(note)
        gc.set_threshold(*thresholds)


def grow() -> None:
    """Make a million objects that live long."""
    kept = [[[number] for number in range(OBJECTS)] for _ in range(STEPS)]
    del kept


@pytest.mark.judges_time
def test_collections_stay_short_while_long_lived_objects_are_made(collections: list[int]) -> None:
    """Compared with the same in this process without it, as machines differ."""
    gc.set_threshold(*THRESHOLDS)
    grow()
    longest_without = max(collections)
    collections.clear()
    keep_collections_short()
    try:
        grow()
    finally:
        stop_freezing()
    assert len(collections) > 10
    assert max(collections) < longest_without / 2


def test_garbage_is_collected_as_before(collections: list[int]) -> None:
    keep_collections_short()
    try:
        grow()
        node = weakref.ref(Node())
        assert node() is not None
        gc.collect()
        assert node() is None
    finally:
        stop_freezing()
    assert collections
