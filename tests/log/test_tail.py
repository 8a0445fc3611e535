"""The tail of a segment: when it rolls, when an index entry is due, and that both builds of it are one."""

from __future__ import annotations

import errno
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.config.setting import LONG_MAX
from pybroker.log import _tail_python
from pybroker.log._tail_python import ENTRY_DUE, UNUSUAL, WRITTEN
from testing.scenes.logs import TAILS

FIELDS = _tail_python.SegmentTail.__slots__
SEGMENT_BYTES, SEGMENT_MS = 1000, 100


class File:
    """A file that remembers how many bytes were written and fails on demand."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.is_failing = False

    def append(self, data: memoryview) -> None:
        if self.is_failing:
            raise OSError(errno.ENOSPC, "full")
        self.sizes.append(len(data))


def fields(tail: Any) -> dict[str, Any]:
    return {name: getattr(tail, name) for name in FIELDS}


def rolls(tail: Any, **changed: int) -> bool:
    asked = {"size": 100, "last_offset": 50, "max_timestamp": 1050, "now_ms": 5000, "is_index_full": False} | changed
    order = ("size", "last_offset", "max_timestamp", "now_ms")
    return tail.should_roll(*(asked[name] for name in order), SEGMENT_BYTES, SEGMENT_MS, bool(asked["is_index_full"]))


@pytest.mark.parametrize("twin", TAILS)
def test_a_segment_rolls_by_size_offsets_index_and_age(twin: ModuleType) -> None:
    tail = twin.SegmentTail(10, 200, 20)
    assert not rolls(tail, max_timestamp=1 << 50), "nothing is too late for an empty segment"
    assert rolls(tail, is_index_full=True)
    assert rolls(tail, size=SEGMENT_BYTES + 1)
    tail.lengthen(400, 1000, 12)
    assert not rolls(tail, size=600)
    assert rolls(tail, size=601)
    assert not rolls(tail, last_offset=10 + 2**31 - 1)
    assert rolls(tail, last_offset=10 + 2**31)
    assert not rolls(tail, max_timestamp=1080)
    assert rolls(tail, max_timestamp=1081), "the jitter lets it roll earlier"
    assert not rolls(tail, max_timestamp=-1), "no timestamp is not late"
    assert not rolls(tail, max_timestamp=-(1 << 63)), "nor is one that no client may send"


@pytest.mark.parametrize("twin", TAILS)
def test_without_timestamps_the_clock_counts(twin: ModuleType) -> None:
    tail = twin.SegmentTail(0, 200, 0)
    tail.created_ms = 4950
    tail.lengthen(400, -1, 2)
    assert not rolls(tail, now_ms=5050)
    assert rolls(tail, now_ms=5051)


@pytest.mark.parametrize("twin", TAILS)
def test_settings_may_be_as_large_as_they_can_be(twin: ModuleType) -> None:
    tail = twin.SegmentTail(0, 200, 0)
    tail.lengthen(400, LONG_MAX, 2)
    assert not tail.should_roll(100, 5, LONG_MAX, LONG_MAX, LONG_MAX, LONG_MAX, False)


@pytest.mark.parametrize("twin", TAILS)
def test_what_begins_something_is_left_alone(twin: ModuleType) -> None:
    for begins in ("roll", "full index", "unknown first timestamp", "unknown largest timestamp"):
        tail, file = twin.SegmentTail(0, 200, 0), File()
        tail.lengthen(100, 1000, 1)
        tail.is_first_known = begins != "unknown first timestamp"
        tail.is_max_known = begins != "unknown largest timestamp"
        tail.has_index_room = begins != "full index"
        before = fields(tail)
        room = 50 if begins == "roll" else SEGMENT_BYTES
        assert tail.append(file, memoryview(bytes(60)), 2, 2, 1010, 2, 5000, room, SEGMENT_MS, None) == UNUSUAL
        assert (fields(tail), file.sizes) == (before, []), begins


@pytest.mark.parametrize("twin", TAILS)
def test_batches_that_are_written_together_are_remembered_one_by_one(twin: ModuleType) -> None:
    tail, file = twin.SegmentTail(0, 200, 0), File()
    tail.has_index_room = True
    places = [(2, 60), (5, 80), (6, 70)]
    assert tail.append(file, memoryview(bytes(210)), 2, 6, 1010, 5, 5000, SEGMENT_BYTES, SEGMENT_MS, places) == WRITTEN
    assert [tail.recent_place(offset) for offset in (2, 5, 6)] == [(0, 60), (60, 80), (140, 70)]
    assert (tail.size, tail.max_timestamp, tail.offset_of_max_timestamp, file.sizes) == (210, 1010, 5, [210])
    assert tail.append(file, memoryview(bytes(60)), 7, 7, 1000, 7, 5000, SEGMENT_BYTES, SEGMENT_MS, None) == ENTRY_DUE
    assert (tail.recent_place(7), tail.bytes_since_entry, tail.offset_of_max_timestamp) == ((210, 60), 60, 5)


@pytest.mark.parametrize("twin", TAILS)
def test_a_write_that_fails_changes_nothing(twin: ModuleType) -> None:
    tail, file = twin.SegmentTail(0, 200, 0), File()
    tail.lengthen(100, 1000, 1)
    tail.has_index_room = True
    before, file.is_failing = fields(tail), True
    with pytest.raises(OSError, match="full"):
        tail.append(file, memoryview(bytes(60)), 2, 2, 1010, 2, 5000, SEGMENT_BYTES, SEGMENT_MS, None)
    assert fields(tail) == before


@pytest.mark.parametrize("twin", TAILS)
def test_at_least_64_batches_are_remembered(twin: ModuleType) -> None:
    tail = twin.SegmentTail(0, 200, 0)
    for offset in range(1000):
        tail.remember(offset, 10 * offset, 10)
        known = {**tail.older, **tail.recent}
        assert [known[one] for one in range(max(0, offset - 63), offset + 1)], offset
        assert len(known) <= 128
        assert tail.recent_place(offset) == known[offset]
        assert tail.recent_place(min(known)) == known[min(known)]
        assert tail.recent_place(offset + 1) is None
    tail.forget()
    assert not tail.older | tail.recent


NUMBERS = st.integers(-1, 1200) | st.sampled_from([-(1 << 63), LONG_MAX])


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["append", "append", "append", "lengthen", "note", "roll"]), st.integers(1, 300), NUMBERS, NUMBERS
        ),
        max_size=200,
    ),
    interval=st.sampled_from([0, 200, 4096]),
)
@settings(deadline=None)
def test_both_builds_do_the_same(steps: list[tuple[str, int, int, int]], interval: int) -> None:
    builds: list[Any] = [one.values[0] for one in TAILS]
    twins = [build.SegmentTail(5, interval, 20) for build in builds]
    files = [File() for _ in twins]
    offset = 5
    for what, size, timestamp, now_ms in steps:
        offset += 2
        returned = []
        for tail, file in zip(twins, files, strict=True):
            is_index_full = size == 300
            if what == "append":
                data = memoryview(bytes(size))
                tail.has_index_room = not is_index_full
                places = None if size % 2 else [(offset, size // 2), (offset + 1, size - size // 2)]
                last = offset if places is None else offset + 1
                returned.append(
                    tail.append(file, data, offset, last, timestamp, offset, max(now_ms, 0), 20_000, SEGMENT_MS, places)
                )
            elif what == "roll":
                returned.append(tail.should_roll(size, offset, timestamp, max(now_ms, 0), 20_000, SEGMENT_MS, is_index_full))
            else:
                returned.append(getattr(tail, what)(size, timestamp, offset))
        assert returned[0] == returned[-1]
        assert fields(twins[0]) == fields(twins[-1])
    assert files[0].sizes == files[-1].sizes
