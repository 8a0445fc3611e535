"""Walks through the records of one batch, in pieces cut anywhere: right against a model of decoded records, alike natively and in
Python."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.model import Offset
from pybroker.records import _kernels_python, _sections_python, sections
from pybroker.records.batch import Record, _read_record
from pybroker.records.build import build_record_section
from pybroker.records.errors import InvalidRecordError
from testing.scenes.record_lists import BASE_MS

if TYPE_CHECKING:
    from types import ModuleType

BOTH = [pytest.param(_sections_python, id="pure")]
if sections.IS_NATIVE:
    BOTH.insert(0, pytest.param(import_module("pybroker.records._sections_native"), id="native"))

TIMES = st.one_of(st.just(-1), st.integers(BASE_MS - 5, BASE_MS + 5), st.integers(0, 1 << 62))
HEADERS = st.sampled_from([(), (("h", b"x"), ("", None))])


@st.composite
def some_records(draw: st.DrawFn) -> list[Record]:
    offset, records = draw(st.integers(0, 1 << 40)), []
    for _ in range(draw(st.integers(1, 10))):
        key, value = draw(st.sampled_from([None, b"", b"k" * 70])), draw(st.sampled_from([None, b"", b"v" * 300]))
        records.append(Record(Offset(offset), draw(TIMES), key, value, draw(HEADERS)))
        offset += draw(st.integers(1, 300))
    return records


def section_of(records: list[Record]) -> bytes:
    return bytes(build_record_section(records, base_offset=records[0].offset, base_timestamp=BASE_MS))


CUTS = st.lists(st.integers(0, 4000), max_size=6)


def pieces_of(section: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(section), *(cut % (len(section) + 1) for cut in cuts)})
    return [section[start:end] for start, end in pairwise(places)]


def walked(walk: Any, section: bytes, cuts: list[int]) -> Any:
    """Walk through a whole section, cut at these places, up to where nothing more is needed."""
    for piece in pieces_of(section, cuts):
        if walk.feed(piece):
            break
    walk.finish()
    return walk


def renumbered(walk: Any, section: bytes, cuts: list[int]) -> bytes:
    made = b"".join(walk.feed(piece) for piece in pieces_of(section, cuts))
    walk.finish()
    return made


@pytest.mark.parametrize("module", BOTH)
@given(records=some_records(), cuts=CUTS)
def test_an_overview_is_what_the_kernel_finds_in_the_whole(module: ModuleType, records: list[Record], cuts: list[int]) -> None:
    section = section_of(records)
    found = walked(module.Overview(len(records), BASE_MS), section, cuts)
    expected = _kernels_python.scan_records(section, len(records), BASE_MS)
    assert (found.max_timestamp, found.min_timestamp, found.keyless, found.is_sequential) == expected


@pytest.mark.parametrize("module", BOTH)
@given(records=some_records(), wanted=TIMES, skipped=st.integers(0, 10), cuts=CUTS)
def test_the_first_record_of_a_time_is_found(
    module: ModuleType, records: list[Record], wanted: int, skipped: int, cuts: list[int]
) -> None:
    start = records[min(skipped, len(records) - 1)].offset
    walk = walked(module.Search(len(records), records[0].offset, BASE_MS, wanted, start), section_of(records), cuts)
    expected = [(record.offset, record.timestamp) for record in records if record.offset >= start and record.timestamp >= wanted]
    assert walk.found == (expected[0] if expected else None)


@pytest.mark.parametrize("module", BOTH)
def test_what_comes_after_the_record_is_not_looked_at(module: ModuleType) -> None:
    section = section_of([Record(Offset(5), BASE_MS, None, b"v")]) + b"\xff" * 50
    assert walked(module.Search(3, 5, BASE_MS, BASE_MS, 0), section, []).found == (5, BASE_MS)
    with pytest.raises(InvalidRecordError):
        walked(module.Search(3, 5, BASE_MS, BASE_MS + 1, 0), section, [])


@pytest.mark.parametrize("module", BOTH)
@given(records=some_records(), skipped=st.integers(0, 10), cuts=CUTS)
def test_the_first_of_the_largest_times_is_found(
    module: ModuleType, records: list[Record], skipped: int, cuts: list[int]
) -> None:
    start = records[min(skipped, len(records) - 1)].offset
    seen = [record for record in records if record.offset >= start and record.timestamp >= 0]
    best = max(seen, key=lambda record: (record.timestamp, -record.offset), default=None)
    walk = walked(module.Search(len(records), records[0].offset, BASE_MS, None, start), section_of(records), cuts)
    assert walk.found == (None if best is None else (best.offset, best.timestamp))


@pytest.mark.parametrize("module", BOTH)
@given(records=some_records(), needs_key=st.booleans(), earliest=TIMES, latest=TIMES, listed_max=st.integers(0, 4), cuts=CUTS)
def test_refused_records_are_listed_up_to_a_bound(
    module: ModuleType, records: list[Record], needs_key: bool, earliest: int, latest: int, listed_max: int, cuts: list[int]
) -> None:
    keyless = [needs_key and record.key is None for record in records]
    outside = [record.timestamp != -1 and not earliest <= record.timestamp <= latest for record in records]
    refused = [
        (index, record.timestamp, record.key is not None)
        for index, record in enumerate(records)
        if keyless[index] or outside[index]
    ]
    walk = walked(module.Refusals(len(records), BASE_MS, needs_key, earliest, latest, listed_max), section_of(records), cuts)
    is_late_or_early = any(late and not bare for late, bare in zip(outside, keyless, strict=True))
    assert walk.refused == (refused[:listed_max], len(refused), is_late_or_early)


@pytest.mark.parametrize("module", BOTH)
@given(records=some_records(), log_append_time=st.one_of(st.none(), st.just(BASE_MS + 7)), cuts=CUTS)
def test_renumbered_records_are_those_that_a_builder_makes(
    module: ModuleType, records: list[Record], log_append_time: int | None, cuts: list[int]
) -> None:
    times = [record.timestamp if log_append_time is None else log_append_time for record in records]
    expected = [record._replace(offset=Offset(index), timestamp=times[index]) for index, record in enumerate(records)]
    walk = module.Renumbering(len(records), BASE_MS, log_append_time)
    made = renumbered(walk, section_of(records), cuts)
    assert walk.base_timestamp_made == times[0]
    assert made == build_record_section(expected, base_offset=Offset(0), base_timestamp=times[0])


WALKS: dict[str, tuple[Any, ...]] = {
    "Overview": (BASE_MS,),
    "Search": (0, BASE_MS, (1 << 63) - 1, 0),
    "Refusals": (BASE_MS, True, 0, (1 << 63) - 1, 3),
    "Renumbering": (BASE_MS, None),
}


def outcome(walk: Any, section: bytes, cuts: list[int]) -> str:
    try:
        for piece in pieces_of(section, cuts):
            walk.feed(piece)
        walk.finish()
    except InvalidRecordError:
        return "refused"
    return "taken"


@pytest.mark.parametrize("name", WALKS)
@pytest.mark.parametrize("module", BOTH)
@given(records=some_records(), cut=st.integers(1, 40), count_off=st.sampled_from([-1, 1, 1 << 31]), cuts=CUTS)
def test_what_is_missing_is_noticed(
    name: str, module: ModuleType, records: list[Record], cut: int, count_off: int, cuts: list[int]
) -> None:
    section, count = section_of(records), len(records)
    for damaged, claimed in ((section[:-cut], count), (section, count + count_off)):
        assert outcome(getattr(module, name)(claimed, *WALKS[name]), damaged, cuts) == "refused"


@pytest.mark.parametrize("module", BOTH)
@given(
    records=some_records(),
    damage=st.lists(st.tuples(st.integers(0, 4000), st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF])), min_size=1, max_size=4),
    cuts=CUTS,
)
def test_damaged_records_are_refused_wherever_the_pieces_are_cut(
    module: ModuleType, records: list[Record], damage: list[tuple[int, int]], cuts: list[int]
) -> None:
    section = bytearray(section_of(records))
    for place, value in damage:
        section[place % len(section)] = value
    try:
        expected: Any = _kernels_python.scan_records(bytes(section), len(records), BASE_MS)
    except InvalidRecordError:
        expected = None
    walk = module.Overview(len(records), BASE_MS)
    if outcome(walk, bytes(section), cuts) == "refused":
        assert expected is None
    else:
        assert (walk.max_timestamp, walk.min_timestamp, walk.keyless, walk.is_sequential) == expected


@pytest.mark.parametrize("module", BOTH)
def test_a_record_of_many_pieces_is_skipped(module: ModuleType) -> None:
    record = Record(Offset(0), BASE_MS, b"k" * 5000, b"v" * 90_000, (("h" * 300, b"w" * 3000),))
    section = section_of([record, record._replace(offset=Offset(1))])
    walk = module.Overview(2, BASE_MS)
    for start in range(0, len(section), 700):
        assert not walk.feed(section[start : start + 700])
    walk.finish()
    assert (walk.max_timestamp, walk.keyless, walk.is_sequential) == (BASE_MS, 0, True)


EDGES = [0, -1, 1, BASE_MS, (1 << 63) - 1, -(1 << 63), -(1 << 63) + 1]


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("base", EDGES)
@pytest.mark.parametrize("deltas", [(0, 0), (0, (1 << 63) - 1), (-(1 << 63), 0), (-1, 1), (1, -(1 << 63))])
def test_times_that_do_not_fit_are_refused_alike(module: ModuleType, base: int, deltas: tuple[int, int]) -> None:
    section = bytes(
        build_record_section(
            [Record(Offset(index), delta, None, b"") for index, delta in enumerate(deltas)],
            base_offset=Offset(0),
            base_timestamp=0,
        )
    )
    times = [base + delta for delta in deltas]
    fits = all(-(1 << 63) <= number < 1 << 63 for number in (*times, times[1] - times[0]))
    walk = module.Renumbering(2, base, None)
    if not fits:
        with pytest.raises(InvalidRecordError):
            renumbered(walk, section, [])
        return
    made = renumbered(walk, section, [])
    position, found = 0, []
    for _ in deltas:
        record, position = _read_record(made, position, Offset(0), walk.base_timestamp_made, None)
        found.append(record.timestamp)
    assert found == times
