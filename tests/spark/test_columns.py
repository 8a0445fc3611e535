"""Columns hold what the record iterators give; the native builder and its pure twin are alike, on damaged records too."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_default
from hypothesis import given
from hypothesis import strategies as st

from pybroker import native
from pybroker.model import Offset
from pybroker.records import legacy
from pybroker.records.batch import BatchView, Record
from pybroker.records.build import build_batch, build_message_set, build_record_section
from pybroker.records.compression import CompressionType
from pybroker.records.errors import CorruptRecordError, InvalidRecordError
from pybroker.spark import _columns_python, columns
from pybroker.spark.columns import HEADERS, KEY, OFFSET, TIMESTAMP, VALUE
from testing.cases import in_case
from testing.scenes.record_lists import BASE_MS, kafka_default, kafka_legacy, record_lists, some_records, without_headers

BOTH = [pytest.param(_columns_python, id="pure")]
with suppress(ImportError):  # it may not have been built
    _columns_native = import_module("pybroker.spark._columns_native")
    BOTH.insert(0, pytest.param(_columns_native, id="native"))

COLUMNS: dict[str, ModuleType] = {str(one.id): one.values[0] for one in BOTH}  # type: ignore[misc]  # only modules are in it
needs_both = pytest.mark.skipif(len(BOTH) < 2, reason="the extension was not built")
ALL = OFFSET | TIMESTAMP | KEY | VALUE | HEADERS
EVERY = (-(1 << 63), (1 << 63) - 1)


def numbers(buffer: Any, layout: str) -> list[int]:
    return memoryview(buffer).cast("B").cast(layout).tolist()  # type: ignore[call-overload]  # the layout is a variable


def strings(column: Any) -> list[bytes | None]:
    validity, ends, data, nulls = column
    ends, data = numbers(ends, "i"), bytes(data)
    found: list[bytes | None] = [data[a:b] for a, b in itertools.pairwise(ends)]
    if validity is None:
        assert not nulls
        return found
    bits = bytes(validity)
    assert len(bits) == (len(found) + 7) // 8
    result = [one if bits[i >> 3] >> (i & 7) & 1 else None for i, one in enumerate(found)]
    assert nulls == result.count(None)
    return result


def rows(taken: Any) -> list[Record]:
    count, offsets, timestamps, keys, values, headers = taken
    ends, header_keys, header_values = numbers(headers[0], "i"), strings(headers[1]), strings(headers[2])
    pairs = [
        ((key or b"").decode(errors="surrogateescape"), value) for key, value in zip(header_keys, header_values, strict=True)
    ]
    times = numbers(timestamps[0], "q")
    if count:
        assert timestamps[1:] == (min(times), max(times))
    found = [
        Record(offset, timestamp, key, value, tuple(pairs[a:b]))
        for offset, timestamp, key, value, a, b in zip(
            numbers(offsets, "q"), times, strings(keys), strings(values), ends[:-1], ends[1:], strict=True
        )
    ]
    assert len(found) == count
    return found


def plain(taken: Any) -> Any:
    """Make the columns comparable: buffers become bytes."""
    if isinstance(taken, tuple):
        return tuple(plain(one) for one in taken)
    return taken if taken is None or isinstance(taken, int) else bytes(taken)


def append_batch(builder: Any, data: bytes | bytearray, window: tuple[int, int] = EVERY) -> None:
    batch = BatchView(memoryview(data))
    builder.append_section(
        batch.record_section(),
        batch.record_count,
        batch.base_offset,
        batch.base_timestamp,
        bool(batch.timestamp_type),
        batch.max_timestamp,
        *window,
    )


@pytest.mark.parametrize("module", BOTH)
@given(lists=st.lists(record_lists(has_gaps=True), max_size=4))
def test_columns_of_several_batches_are_what_the_iterator_gives(module: ModuleType, lists: list[list[Record]]) -> None:
    builder = module.ColumnBuilder(ALL)
    expected: list[Record] = []
    for records in lists:
        data = build_batch(records)
        append_batch(builder, data)
        expected += BatchView(memoryview(data)).records()
    assert builder.rows == len(expected)
    assert builder.data_bytes == sum(
        len(one.key or b"") + len(one.value or b"") + sum(len(k.encode()) + len(v or b"") for k, v in one.headers)
        for one in expected
    )
    assert rows(builder.take()) == expected
    assert rows(builder.take()) == []  # begins again


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("codec", list(CompressionType))
@pytest.mark.parametrize("client", [kafka_default, aiokafka_default], ids=["kafka-python", "aiokafka"])
def test_batches_of_other_clients_become_columns(module: ModuleType, client: ModuleType, codec: CompressionType) -> None:
    records = some_records(20)
    maker = client.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for record in records:
        maker.append(record.offset, timestamp=record.timestamp, key=record.key, value=record.value, headers=list(record.headers))
    builder = module.ColumnBuilder(ALL)
    append_batch(builder, bytes(maker.build()))
    assert rows(builder.take()) == records


@pytest.mark.parametrize("module", BOTH)
@given(records=record_lists(has_gaps=True), first=st.integers(0, 12), count=st.integers(0, 12))
def test_only_the_offsets_asked_for_are_taken(module: ModuleType, records: list[Record], first: int, count: int) -> None:
    window = (records[0].offset + first, records[0].offset + first + count)
    builder = module.ColumnBuilder(ALL)
    append_batch(builder, build_batch(records), window)
    assert rows(builder.take()) == [record for record in records if window[0] <= record.offset < window[1]]


@pytest.mark.parametrize("module", BOTH)
@given(records=record_lists(has_gaps=True), wanted=st.integers(0, 31))
def test_only_wanted_columns_are_filled(module: ModuleType, records: list[Record], wanted: int) -> None:
    builders = [module.ColumnBuilder(one) for one in (wanted, ALL)]
    for builder in builders:
        append_batch(builder, build_batch(records))
    taken, whole = (plain(builder.take()) for builder in builders)
    assert taken == (whole[0], *(whole[1 + bit] if wanted >> bit & 1 else None for bit in range(5)))


@pytest.mark.parametrize("module", BOTH)
def test_log_append_time_holds_for_every_record(module: ModuleType) -> None:
    records = some_records(3)
    section = build_record_section(records, base_offset=Offset(0), base_timestamp=BASE_MS)
    builder = module.ColumnBuilder(ALL)
    assert builder.append_section(section, 3, 0, BASE_MS, True, 77, *EVERY) == 3
    assert [record.timestamp for record in rows(builder.take())] == [77, 77, 77]


@pytest.mark.parametrize("module", BOTH)
def test_runs_follow_from_headers(module: ModuleType) -> None:
    builder = module.ColumnBuilder(OFFSET | TIMESTAMP)
    builder.append_run(3, 10, 500)
    builder.append_run(2, 20, 400)
    count, offsets, timestamps, *rest = builder.take()
    assert (count, numbers(offsets, "q"), rest) == (5, [10, 11, 12, 20, 21], [None, None, None])
    assert (numbers(timestamps[0], "q"), timestamps[1:]) == ([500, 500, 500, 400, 400], (400, 500))
    with pytest.raises(ValueError, match="no keys"):
        module.ColumnBuilder(VALUE).append_run(1, 0, 0)


# --- messages of magic 0 and 1


@given(records=record_lists(has_gaps=True).map(without_headers))
def test_messages_become_columns(records: list[Record]) -> None:
    for name, magic in itertools.product(COLUMNS, (0, 1)):
        with in_case(f"{name}, magic {magic}"):
            data = bytes(build_message_set(records, magic=magic))
            builder = COLUMNS[name].ColumnBuilder(ALL)
            assert builder.append_messages(data, 0, -1, False, 0, *EVERY) == (len(data), len(records))
            assert rows(builder.take()) == list(legacy.records(data))


@given(records=record_lists().map(without_headers), append_time=st.booleans())
def test_wrapped_messages_become_columns(records: list[Record], append_time: bool) -> None:
    for name, magic, codec in itertools.product(COLUMNS, (0, 1), (CompressionType.GZIP, CompressionType.LZ4)):
        with in_case(f"{name}, magic {magic}, {codec!r}"):
            wrapped_messages_become_columns(COLUMNS[name], magic, codec, records, append_time)


def wrapped_messages_become_columns(
    module: ModuleType, magic: int, codec: CompressionType, records: list[Record], append_time: bool
) -> None:
    data = bytes(build_message_set(records, magic=magic, compression=codec))
    wrapper = legacy.MessageView(memoryview(data))
    builder = module.ColumnBuilder(ALL)
    inner = wrapper.inner_messages()
    end, count = builder.append_messages(inner, 0, wrapper.offset if magic else 0, append_time, 99, *EVERY)
    assert (end, count) == (len(inner), len(records))
    expected = list(legacy.records(data))
    assert rows(builder.take()) == ([one._replace(timestamp=99) for one in expected] if append_time else expected)


@pytest.mark.parametrize("module", BOTH)
def test_messages_of_kafka_python_become_columns(module: ModuleType) -> None:
    maker = kafka_legacy.LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1 << 20)
    for i in range(5):
        maker.append(i, timestamp=BASE_MS + i, key=b"k", value=b"v%d" % i)
    builder = module.ColumnBuilder(ALL)
    builder.append_messages(bytes(maker.build()), 0, -1, False, 0, *EVERY)
    assert rows(builder.take()) == [Record(Offset(i), BASE_MS + i, b"k", b"v%d" % i) for i in range(5)]


@pytest.mark.parametrize("module", BOTH)
def test_a_stretch_ends_where_the_kind_of_message_changes(module: ModuleType) -> None:
    old, new = (bytes(build_message_set(some_records(3), magic=magic)) for magic in (0, 1))
    wrapped = bytes(build_message_set(some_records(3), magic=1, compression=CompressionType.GZIP))
    batch = bytes(build_batch(some_records(3)))
    for second in (new, wrapped, batch, old[:20]):
        builder = module.ColumnBuilder(ALL)
        assert builder.append_messages(old + second, 0, -1, False, 0, *EVERY) == (len(old), 3)
    builder = module.ColumnBuilder(ALL)
    assert builder.append_messages(old + new, len(old), -1, False, 0, 1, 2) == (len(old) + len(new), 1)


@pytest.mark.parametrize("module", BOTH)
def test_the_inside_of_a_wrapper_is_of_one_kind(module: ModuleType) -> None:
    old, new = (bytes(build_message_set(some_records(3), magic=magic)) for magic in (0, 1))
    nested = bytes(build_message_set(some_records(3), magic=1, compression=CompressionType.GZIP))
    damaged = new[:-1] + b"?"
    for inside in (new + old, new + bytes(build_batch(some_records(1))), nested, damaged):
        with pytest.raises(CorruptRecordError):
            module.ColumnBuilder(ALL).append_messages(inside, 0, 10, False, 0, *EVERY)
    with pytest.raises(InvalidRecordError):
        module.ColumnBuilder(ALL).append_messages(new, 0, 1, False, 0, *EVERY)  # the last inside has offset 2


# --- alike on every input


def outcome(function: Callable[[], Any]) -> object:
    try:
        return plain(function())
    except CorruptRecordError as error:
        return str(error)


def of_section(module: ModuleType, wanted: int, *arguments: Any) -> object:
    def run() -> Any:
        builder = module.ColumnBuilder(wanted)
        count = builder.append_section(*arguments)
        return (count, *builder.take())

    return outcome(run)


def of_messages(module: ModuleType, *arguments: Any) -> object:
    def run() -> Any:
        builder = module.ColumnBuilder(ALL)
        end, count = builder.append_messages(*arguments)
        return (end, count, *builder.take())

    return outcome(run)


@needs_both
@given(
    records=record_lists(has_gaps=True),
    wanted=st.integers(0, 31),
    damage=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 3),
    count=st.integers(-1, 2),
    base=st.tuples(st.sampled_from([0, 1 << 62, (1 << 63) - 1]), st.sampled_from([0, -(1 << 63), (1 << 63) - 1])),
)
def test_twins_agree_on_damaged_sections(
    records: list[Record], wanted: int, damage: list[tuple[int, int]], cut: int, count: int, base: tuple[int, int]
) -> None:
    section = bytearray(build_record_section(records, base_offset=records[0].offset, base_timestamp=records[0].timestamp))
    for position, byte in damage:
        section[position % len(section)] = byte
    arguments = (bytes(section[: len(section) - cut]), len(records) + count, *base, False, 0, *EVERY)
    assert of_section(_columns_native, wanted, *arguments) == of_section(_columns_python, wanted, *arguments)


@needs_both
@given(section=st.binary(max_size=60), count=st.integers(0, 4))
def test_twins_agree_on_any_bytes(section: bytes, count: int) -> None:
    arguments = (section, count, 5, 5, False, 0, *EVERY)
    assert of_section(_columns_native, ALL, *arguments) == of_section(_columns_python, ALL, *arguments)


@needs_both
@given(
    records=record_lists(has_gaps=True).map(without_headers),
    magic=st.integers(0, 1),
    damage=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=3),
    wrapper=st.sampled_from([-1, 0, 3, 1 << 50]),
    cut=st.integers(0, 30),
)
def test_twins_agree_on_damaged_messages(
    records: list[Record], magic: int, damage: list[tuple[int, int]], wrapper: int, cut: int
) -> None:
    data = bytearray(build_message_set(records, magic=magic))
    for position, byte in damage:
        data[position % len(data)] = byte
    arguments = (bytes(data[: len(data) - cut]), 0, wrapper, False, 0, *EVERY)
    assert of_messages(_columns_native, *arguments) == of_messages(_columns_python, *arguments)


@pytest.mark.parametrize("module", BOTH)
def test_what_was_taken_stays_while_more_is_filled(module: ModuleType) -> None:
    builder = module.ColumnBuilder(ALL)
    append_batch(builder, build_batch(some_records(50)))
    first = builder.take()
    append_batch(builder, build_batch(some_records(80, base_offset=1000)))
    assert rows(first) == some_records(50)
    assert rows(builder.take()) == some_records(80, base_offset=1000)


@pytest.mark.parametrize("module", BOTH)
def test_a_count_that_is_a_lie_is_found(module: ModuleType) -> None:
    section = build_record_section(some_records(2), base_offset=Offset(0), base_timestamp=BASE_MS)
    for count in (1, 3, 1 << 31):
        with pytest.raises(InvalidRecordError):
            module.ColumnBuilder(ALL).append_section(section, count, 0, BASE_MS, False, 0, *EVERY)
    assert struct.calcsize("i") == 4  # Arrow's ends are 32 bits
    assert (len(BOTH) == 2 and native.is_wanted()) == columns.IS_NATIVE
