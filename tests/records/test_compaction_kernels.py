"""The kernels of compaction agree with a model that works on decoded records, and with each other natively and in Python."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.model import Offset
from pybroker.records.batch import Record, _read_record
from pybroker.records.build import build_record_section
from pybroker.records.errors import CorruptRecordError, InvalidRecordError
from testing.scenes.record_lists import BASE_MS, BOTH

KEYS = st.sampled_from([None, b"", b"a", b"b", b"c" * 200])
VALUES = st.sampled_from([None, b"", b"v", b"w" * 300])


@st.composite
def keyed_records(draw: st.DrawFn) -> list[Record]:
    offset, records = draw(st.integers(0, 1 << 40)), []
    for _ in range(draw(st.integers(1, 12))):
        timestamp = BASE_MS + draw(st.integers(-(1 << 40), 1 << 40))
        headers = (("h", b"x"),) if draw(st.booleans()) else ()
        records.append(Record(Offset(offset), timestamp, draw(KEYS), draw(VALUES), headers))
        offset += draw(st.integers(1, 300))
    return records


def section_of(records: list[Record], base_timestamp: int = BASE_MS) -> bytes:
    return bytes(build_record_section(records, base_offset=records[0].offset, base_timestamp=base_timestamp))


def records_of(section: bytes, count: int, base_offset: int, base_timestamp: int) -> list[Record]:
    position, records = 0, []
    for _ in range(count):
        record, position = _read_record(section, position, Offset(base_offset), base_timestamp, None)
        records.append(record)
    assert position == len(section)
    return records


@pytest.mark.parametrize("module", BOTH)
@given(records=keyed_records(), known=st.dictionaries(st.sampled_from([b"a", b"z"]), st.just(-7)))
def test_the_last_offset_of_each_key_is_noted(module: ModuleType, records: list[Record], known: dict[bytes, int]) -> None:
    offsets = dict(known)
    new = {record.key for record in records if record.key is not None} - known.keys()
    assert module.note_keys(section_of(records), len(records), records[0].offset, offsets) == (len(new), sum(map(len, new)))
    assert offsets == known | {record.key: record.offset for record in records if record.key is not None}


@pytest.mark.parametrize("module", BOTH)
@given(
    records=keyed_records(),
    later=st.sets(KEYS.filter(lambda key: key is not None)),
    latest_at=st.integers(0, 12),
    keeps_tombstones=st.booleans(),
    moved=st.sampled_from([0, 1, -(1 << 41), 86_400_000]),
)
def test_what_is_retained_is_what_the_rules_require(
    module: ModuleType, records: list[Record], later: set[bytes], latest_at: int, keeps_tombstones: bool, moved: int
) -> None:
    latest_offset = records[min(latest_at, len(records) - 1)].offset
    offsets = {record.key: record.offset for record in records if record.key is not None and record.offset <= latest_offset}
    offsets |= dict.fromkeys(later, records[-1].offset + 5)
    expected = [
        record
        for record in records
        if record.offset > latest_offset
        or (record.key is not None and offsets[record.key] == record.offset and (record.value is not None or keeps_tombstones))
    ]
    section, count, max_timestamp, tombstones = module.retain_records(
        section_of(records), len(records), records[0].offset, BASE_MS, BASE_MS + moved, offsets, latest_offset, keeps_tombstones
    )
    assert records_of(section, count, records[0].offset, BASE_MS + moved) == expected
    assert max_timestamp == max((record.timestamp for record in expected), default=-1)
    assert tombstones == sum(record.value is None for record in expected)
    if expected and not moved and len(expected) == len(records):
        assert section == section_of(records), "what stays whole keeps its bytes"


@pytest.mark.parametrize("module", BOTH)
@given(records=keyed_records(), cut=st.integers(1, 40), count_off=st.sampled_from([-1, 1, 1 << 31, -(1 << 40)]))
def test_damage_is_found(module: ModuleType, records: list[Record], cut: int, count_off: int) -> None:
    section, count = section_of(records), len(records)
    for damaged, claimed in ((section[:-cut], count), (section, count + count_off)):
        with pytest.raises((CorruptRecordError, InvalidRecordError)):
            module.note_keys(damaged, claimed, 0, {})
        for base in (BASE_MS, BASE_MS + 1):
            with pytest.raises((CorruptRecordError, InvalidRecordError)):
                module.retain_records(damaged, claimed, 0, BASE_MS, base, {}, -1, True)


@pytest.mark.parametrize("module", BOTH)
def test_a_time_that_no_longer_fits_is_refused(module: ModuleType) -> None:
    section = section_of([Record(Offset(0), 1 << 62, b"k", b"v")], 0)
    with pytest.raises((CorruptRecordError, InvalidRecordError)):
        module.retain_records(section, 1, 0, 0, -(1 << 62) - 1, {}, -1, True)


@pytest.mark.parametrize("module", BOTH)
@given(records=keyed_records(), count_max=st.integers(1, 5), bytes_min=st.integers(1, 60))
def test_pieces_hold_whole_records_and_together_all(
    module: ModuleType, records: list[Record], count_max: int, bytes_min: int
) -> None:
    section = section_of(records)
    position, found = 0, []
    while position < len(section):
        count, end = module.take_records(section, position, count_max, bytes_min)
        assert 1 <= count <= count_max
        piece = records_of(section[position:end], count, records[0].offset, BASE_MS)
        assert len(section_of(piece[:-1] or piece)) < bytes_min + len(section) or count == 1
        found += piece
        position = end
    assert found == records
    assert module.take_records(section, position, count_max, bytes_min) == (0, len(section))


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize(
    ("section", "position"), [(b"\x08abc", 0), (b"\x01", 0), (b"\x00", 0), (b"\x80", 0), (b"\x02a", 3), (b"", -1)]
)
def test_no_piece_is_taken_of_a_damaged_section(module: ModuleType, section: bytes, position: int) -> None:
    with pytest.raises((CorruptRecordError, InvalidRecordError)):
        module.take_records(section, position, 5, 100)


@pytest.mark.parametrize("module", BOTH)
@given(records=keyed_records(), cut=st.integers(0, 1 << 12))
def test_a_piece_may_end_before_a_record_that_is_cut(module: ModuleType, records: list[Record], cut: int) -> None:
    section = section_of(records)
    cut %= len(section) + 1
    count, end = module.take_records(section[:cut], 0, len(records), cut, True)
    assert records_of(section[:end], count, records[0].offset, BASE_MS) == records[:count]
    rest = module.take_records(section, end, len(records), len(section))
    assert (count + rest[0], rest[1]) == (len(records), len(section))
    assert count == len(records) or module.take_records(section, end, 1, 1)[1] > cut


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("section", [b"\x01a", b"\x00", b"\x80" * 5 + b"\x01"])
def test_no_piece_ends_before_a_record_that_cannot_be(module: ModuleType, section: bytes) -> None:
    with pytest.raises((CorruptRecordError, InvalidRecordError)):
        module.take_records(section, 0, 5, 100, True)
