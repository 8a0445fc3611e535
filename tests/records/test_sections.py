"""What is looked for in the records of one batch: right against a model of decoded records, alike natively and in Python."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.model import Offset
from pybroker.records import _sections_python, sections
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


@pytest.mark.parametrize("module", BOTH)
@given(records=some_records(), wanted=TIMES, skipped=st.integers(0, 10))
def test_the_first_record_of_a_time_is_found(module: ModuleType, records: list[Record], wanted: int, skipped: int) -> None:
    start = records[min(skipped, len(records) - 1)].offset
    found = module.first_record(section_of(records), len(records), records[0].offset, BASE_MS, wanted, start)
    expected = [(record.offset, record.timestamp) for record in records if record.offset >= start and record.timestamp >= wanted]
    assert found == (expected[0] if expected else None)


@pytest.mark.parametrize("module", BOTH)
def test_what_comes_after_the_record_is_not_looked_at(module: ModuleType) -> None:
    section = section_of([Record(Offset(5), BASE_MS, None, b"v")]) + b"\xff" * 50
    assert module.first_record(section, 3, 5, BASE_MS, BASE_MS, 0) == (5, BASE_MS)
    with pytest.raises(InvalidRecordError):
        module.first_record(section, 3, 5, BASE_MS, BASE_MS + 1, 0)


@pytest.mark.parametrize("module", BOTH)
@given(records=some_records(), skipped=st.integers(0, 10))
def test_the_first_of_the_largest_times_is_found(module: ModuleType, records: list[Record], skipped: int) -> None:
    start = records[min(skipped, len(records) - 1)].offset
    seen = [record for record in records if record.offset >= start and record.timestamp >= 0]
    best = max(seen, key=lambda record: (record.timestamp, -record.offset), default=None)
    found = module.largest_timestamp(section_of(records), len(records), records[0].offset, BASE_MS, start)
    assert found == (None if best is None else (best.offset, best.timestamp))


@pytest.mark.parametrize("module", BOTH)
@given(records=some_records(), needs_key=st.booleans(), earliest=TIMES, latest=TIMES, listed_max=st.integers(0, 4))
def test_refused_records_are_listed_up_to_a_bound(
    module: ModuleType, records: list[Record], needs_key: bool, earliest: int, latest: int, listed_max: int
) -> None:
    keyless = [needs_key and record.key is None for record in records]
    outside = [record.timestamp != -1 and not earliest <= record.timestamp <= latest for record in records]
    refused = [
        (index, record.timestamp, record.key is not None)
        for index, record in enumerate(records)
        if keyless[index] or outside[index]
    ]
    found = module.refused_records(section_of(records), len(records), BASE_MS, needs_key, earliest, latest, listed_max)
    is_late_or_early = any(late and not bare for late, bare in zip(outside, keyless, strict=True))
    assert found == (refused[:listed_max], len(refused), is_late_or_early)


@pytest.mark.parametrize("module", BOTH)
@given(records=some_records(), log_append_time=st.one_of(st.none(), st.just(BASE_MS + 7)))
def test_renumbered_records_are_those_that_a_builder_makes(
    module: ModuleType, records: list[Record], log_append_time: int | None
) -> None:
    times = [record.timestamp if log_append_time is None else log_append_time for record in records]
    expected = [record._replace(offset=Offset(index), timestamp=times[index]) for index, record in enumerate(records)]
    section = section_of(records)
    made, first = module.renumbered(section, len(records), BASE_MS, log_append_time)
    assert first == times[0]
    assert made == build_record_section(expected, base_offset=Offset(0), base_timestamp=first)
    assert module.renumbered_size(section, len(records), BASE_MS, log_append_time) == (len(made), first)


@pytest.mark.parametrize("name", ["first_record", "largest_timestamp", "refused_records", "renumbered", "renumbered_size"])
@pytest.mark.parametrize("module", BOTH)
@given(records=some_records(), cut=st.integers(1, 40), count_off=st.sampled_from([-1, 1, 1 << 31]))
def test_damage_is_found(name: str, module: ModuleType, records: list[Record], cut: int, count_off: int) -> None:
    never = (1 << 63) - 1
    rest: dict[str, tuple[Any, ...]] = {
        "first_record": (0, BASE_MS, never, 0),
        "largest_timestamp": (0, BASE_MS, 0),
        "refused_records": (BASE_MS, True, 0, never, 3),
    }
    section, count = section_of(records), len(records)
    for damaged, claimed in ((section[:-cut], count), (section, count + count_off)):
        with pytest.raises(InvalidRecordError):
            getattr(module, name)(damaged, claimed, *rest.get(name, (BASE_MS, None)))


EDGES = [0, -1, 1, BASE_MS, (1 << 63) - 1, -(1 << 63), -(1 << 63) + 1]


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("base", EDGES)
@pytest.mark.parametrize("deltas", [(0, 0), (0, (1 << 63) - 1), (-(1 << 63), 0), (-1, 1), (1, -(1 << 63))])
def test_times_that_do_not_fit_are_refused_alike(module: ModuleType, base: int, deltas: tuple[int, int]) -> None:
    section = build_record_section(
        [Record(Offset(index), delta, None, b"") for index, delta in enumerate(deltas)], base_offset=Offset(0), base_timestamp=0
    )
    times = [base + delta for delta in deltas]
    fits = all(-(1 << 63) <= number < 1 << 63 for number in (*times, times[1] - times[0]))
    if not fits:
        with pytest.raises(InvalidRecordError):
            module.renumbered(section, 2, base, None)
        return
    made, first = module.renumbered(section, 2, base, None)
    position, found = 0, []
    for _ in deltas:
        record, position = _read_record(made, position, Offset(0), first, None)
        found.append(record.timestamp)
    assert found == times
