"""Down-conversion piece by piece: the same messages and the same errors as of the whole batch, in bounded memory."""

from __future__ import annotations

import contextlib
import itertools
import tracemalloc
from collections.abc import Callable, Iterator
from types import ModuleType
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.model import Offset
from pybroker.records import compression, convert, down_pieces, inflate, legacy
from pybroker.records.batch import Record, batches
from pybroker.records.build import assemble_batch, build_batch, build_record_section
from pybroker.records.compression import CompressionType, compress
from pybroker.records.convert import ConvertedEntry, down_convert_entry
from pybroker.records.errors import ConversionClosedError, CorruptRecordError, InvalidRecordError
from pybroker.records.lazy_down_conversion import LazyDownConversion
from testing.scenes.record_lists import BOTH, kernels_of, record_lists, some_records
from tests.records.test_lazy_down_conversion import Slice, pulled

CODECS = (CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4)
MIB = 1 << 20


@contextlib.contextmanager
def windows_of(window_bytes: int, piece_bytes: int) -> Iterator[None]:
    """Make batches large that are not: a window has this much, and what is inflated comes in pieces of this size."""
    with (
        mock.patch.object(convert, "WINDOW_BYTES", window_bytes),
        mock.patch.object(down_pieces, "WINDOW_BYTES", window_bytes),
        mock.patch.object(inflate, "PIECE_BYTES", piece_bytes),
    ):
        yield


def converted(batch: bytes, magic: int, step: Callable[[], None] | None = None) -> ConvertedEntry:
    return down_convert_entry(memoryview(batch), 0, len(batch), to_magic=magic, first_offset=Offset(0), step=step)


def shown(batch: bytes, magic: int) -> object:
    """Return all that a client sees of the conversion, or the kind of its error."""
    try:
        data, count = converted(batch, magic)
    except CorruptRecordError as error:
        return type(error)
    wrapper = next(legacy.messages(data), None)
    if wrapper is None:
        return count
    wrapper.ensure_valid()
    return count, wrapper.offset, wrapper.timestamp, wrapper.attributes, bytes(wrapper.inner_messages())


@pytest.mark.parametrize("module", BOTH)
@given(
    records=record_lists(has_gaps=True),
    codec=st.sampled_from(CODECS),
    magic=st.integers(0, 1),
    append_time=st.none() | st.integers(0, 1 << 50),
    damage=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=2),
    cut=st.integers(0, 12) | st.just(0),
    extra=st.integers(-2, 2) | st.just(0),
    sizes=st.tuples(st.integers(1, 400), st.integers(1, 400)),
)
def test_pieces_become_what_the_whole_becomes(
    module: ModuleType,
    records: list[Record],
    codec: CompressionType,
    magic: int,
    append_time: int | None,
    damage: list[tuple[int, int]],
    cut: int,
    extra: int,
    sizes: tuple[int, int],
) -> None:
    base_timestamp = records[0].timestamp
    section = build_record_section(records, base_offset=records[0].offset, base_timestamp=base_timestamp)
    for at, byte in damage:
        section[at % len(section)] = byte
    with mock.patch.object(compression, "_XERIAL_BLOCK_BYTES", sizes[1]):
        payload = compress(codec, section[: len(section) - cut])
    batch = bytes(
        assemble_batch(
            payload,
            base_offset=records[0].offset,
            last_offset_delta=records[-1].offset - records[0].offset,
            attributes=codec | (0 if append_time is None else 8),
            base_timestamp=base_timestamp,
            max_timestamp=append_time or 0,
            record_count=max(len(records) + extra, 0),
        )
    )
    with kernels_of(module):
        whole = shown(batch, magic)
        with windows_of(*sizes):
            assert shown(batch, magic) == whole


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    "large",
    [
        Record(Offset(3), 8, bytes(3000), b"v"),
        Record(Offset(3), 8, None, bytes(3000), (("h", None),)),
        Record(Offset(3), 8, b"", None, tuple(("h" * (i % 9), bytes(i)) for i in range(90))),
    ],
    ids=["key", "value", "headers"],
)
def test_a_record_larger_than_the_window(module: ModuleType, magic: int, large: Record) -> None:
    records = [*some_records(3), large, *some_records(2, base_offset=4), large._replace(offset=Offset(6))]
    batch = bytes(build_batch(records, compression=CompressionType.GZIP))
    with kernels_of(module):
        whole = shown(batch, magic)
        with windows_of(100, 64):
            assert shown(batch, magic) == whole
    assert isinstance(whole, tuple)
    assert whole[0] == len(records)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("is_one", [True, False], ids=["one record", "many"])
def test_a_batch_that_is_large_inside_takes_a_few_megabytes(codec: CompressionType, *, is_one: bool) -> None:
    records = [Record(Offset(0), 5, None, bytes(60 * MIB))] if is_one else some_records(60_000, value_size=1000)
    source = bytes(build_batch(records, compression=codec))
    tracemalloc.start()
    try:
        part = LazyDownConversion(Slice(source), to_magic=1, first_offset=Offset(0))
        sent_bytes = sum(map(len, pulled(part)))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sent_bytes == part.size
    assert part.records_converted == len(records)
    assert peak_bytes < 8 * MIB + 4 * sent_bytes


def test_damage_in_a_late_piece_is_an_error_of_the_whole() -> None:
    section = build_record_section(some_records(20_000, value_size=100), base_offset=Offset(0), base_timestamp=0)
    section[-1] = 8  # the last record's header has a value that is not there
    batch = assemble_batch(
        compress(CompressionType.LZ4, section),
        base_offset=Offset(0),
        last_offset_delta=19_999,
        attributes=CompressionType.LZ4,
        base_timestamp=0,
        max_timestamp=0,
        record_count=20_000,
    )
    with pytest.raises(InvalidRecordError):
        converted(bytes(batch), 1)
    cut = build_batch(some_records(20_000, value_size=100), compression=CompressionType.LZ4)[:-1000]
    cut[8:12] = (len(cut) - 12).to_bytes(4, "big")
    (view,) = batches(cut)
    cut[17:21] = view.computed_crc().to_bytes(4, "big")
    with pytest.raises(CorruptRecordError, match="truncated lz4 data"):
        converted(bytes(cut), 1)


@pytest.mark.parametrize("is_one", [True, False], ids=["one record", "many"])
def test_a_conversion_that_is_closed_ends_at_its_next_piece(*, is_one: bool) -> None:
    records = [Record(Offset(0), 5, None, bytes(20 * MIB))] if is_one else some_records(20_000, value_size=1000)
    source = bytes(build_batch(records, compression=CompressionType.GZIP))
    part = LazyDownConversion(Slice(source), to_magic=1, first_offset=Offset(0), is_measured=False)
    inflated_pieces = inflate.gzip_pieces
    pieces = itertools.count(1)

    def closing(data: bytes) -> Iterator[bytes]:
        for piece in inflated_pieces(data):
            if next(pieces) == 20:
                part.close()
            yield piece

    with mock.patch.object(inflate, "gzip_pieces", closing), pytest.raises(ConversionClosedError):
        part.measure()
    assert next(pieces) == 21
