"""`entries` finds what `BatchView.records` finds, and where that raises it raises, too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.model import Offset
from pybroker.records.batch import HEADER_SIZE, Record, batches
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.records.entries import build_ends, entries, record_end
from pybroker.records.errors import InvalidRecordError

FIELD = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=5), FIELD), max_size=2).map(tuple)
RECORDS = st.lists(st.tuples(st.integers(0, 2**40), FIELD, FIELD, HEADERS), min_size=1, max_size=200)


@given(RECORDS, st.sampled_from([CompressionType.NONE, CompressionType.GZIP]))
def test_they_are_the_records(fields: list[tuple[int, bytes | None, bytes | None, tuple[()]]], codec: CompressionType) -> None:
    records = [Record(Offset(offset), *rest) for offset, rest in enumerate(fields)]
    (batch,) = batches(build_batch(records, compression=codec))
    assert list(entries(batch)) == [(record.key, record.value) for record in records]


@given(
    st.lists(st.tuples(st.binary(max_size=300), st.none() | st.binary(max_size=300)), min_size=1, max_size=300),
    st.integers(0, 2**40),
    st.sampled_from([CompressionType.NONE, CompressionType.GZIP]),
)
def test_they_are_built_as_records_are(pairs: list[tuple[bytes, bytes | None]], now_ms: int, codec: CompressionType) -> None:
    expected = build_batch([Record(Offset(number), now_ms, *pair) for number, pair in enumerate(pairs)], compression=codec)
    assert build_ends([record_end(*pair) for pair in pairs], timestamp_ms=now_ms, compression=codec) == expected


BATCH = build_batch([Record(Offset(0), 5, b"key", b"value"), Record(Offset(1), 6, b"k" * 70, b"v" * 300)])


@given(st.integers(HEADER_SIZE, len(BATCH) - 1), st.integers(0, 255))
def test_damage_is_an_error_or_another_record(at: int, byte: int) -> None:
    damaged = bytearray(BATCH)
    damaged[at] = byte
    (batch,) = batches(damaged)
    try:
        list(entries(batch))
    except InvalidRecordError:
        return
    assert damaged[HEADER_SIZE] == BATCH[HEADER_SIZE], "the first record's size is checked by where the second begins"


@pytest.mark.parametrize("count", [1, 3])
def test_other_records_than_the_header_promises(count: int) -> None:
    damaged = bytearray(BATCH)
    damaged[HEADER_SIZE - 1] = count
    (batch,) = batches(damaged)
    with pytest.raises(InvalidRecordError):
        list(entries(batch))
