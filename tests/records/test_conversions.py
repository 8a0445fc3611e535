"""The conversions of records, natively and in Python: right against the slow way, and alike on every input."""

from __future__ import annotations

import random
import zlib
from types import ModuleType
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pybroker.model import LeaderEpoch, Offset
from pybroker.native import extension
from pybroker.records import _conversions_python, conversions, kernels
from pybroker.records.batch import Record, TimestampType
from pybroker.records.build import build_batch, build_message_set, build_record_section
from pybroker.records.compression import CompressionType
from pybroker.records.convert import down_convert
from pybroker.records.errors import InvalidRecordError
from testing.scenes.record_lists import outcome, record_lists, section_of, some_records

_conversions_native = extension("pybroker.records._conversions_native")
BOTH = [
    pytest.param(module, id=name) for name, module in (("native", _conversions_native), ("pure", _conversions_python)) if module
]
needs_both = pytest.mark.skipif(_conversions_native is None, reason="the extension was not built")
EVERY = -(1 << 63)
MUCH = 1 << 40


def batch_of(count: int, base_offset: int, **settings: Any) -> bytes:
    return bytes(build_batch(some_records(count, base_offset=base_offset, value_size=100), **settings))


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("magic", [0, 1])
@given(records=record_lists(has_gaps=True), skipped=st.integers(0, 12), append_time=st.none() | st.integers(0, 1 << 50))
def test_down_converted_records_are_the_messages_of_the_same_records(
    module: ModuleType, magic: int, records: list[Record], skipped: int, append_time: int | None
) -> None:
    section, base_offset, base_timestamp = section_of(records)
    first_offset = records[skipped].offset if skipped < len(records) else records[-1].offset + 1
    if append_time is not None:
        records = [record._replace(timestamp=append_time) for record in records]
    kept = records[skipped:]
    wanted = build_message_set(
        kept, magic=magic, timestamp_type=TimestampType(append_time is not None), log_append_time_ms=append_time or 0
    )
    assert module.down_converted_size(section, len(records), base_offset, magic, first_offset) == len(wanted)
    is_append_time = append_time is not None
    converted = module.down_convert_records(
        section, len(records), base_offset, base_timestamp, is_append_time, append_time or 0, magic, first_offset, False
    )
    last_offset = kept[-1].offset if kept else -1
    assert converted == (wanted, len(kept), last_offset, max((record.timestamp for record in kept), default=-1))


@pytest.mark.parametrize("module", BOTH)
def test_relative_offsets_count_from_the_first(module: ModuleType) -> None:
    records = some_records(4, base_offset=1000)
    section, base_offset, base_timestamp = section_of(records)
    messages, *_ = module.down_convert_records(section, 4, base_offset, base_timestamp, False, 0, 1, EVERY, True)
    assert messages == build_message_set([r._replace(offset=Offset(i)) for i, r in enumerate(records)], magic=1)


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("magic", [0, 1])
@given(records=record_lists())
def test_messages_come_up_as_the_same_records(module: ModuleType, magic: int, records: list[Record]) -> None:
    records = [r._replace(offset=Offset(i), headers=(), timestamp=r.timestamp if magic else -1) for i, r in enumerate(records)]
    messages = build_message_set(records, magic=magic)
    section, count, base_timestamp, *rest, end = module.up_convert_messages(messages, magic, False, 0)
    assert end == len(messages)
    assert (section, count, base_timestamp) == (section_of(records)[0], len(records), records[0].timestamp)
    assert (*rest, True) == kernels.scan_records(section, count, base_timestamp)
    assert module.up_convert_messages(messages, magic, True, 77)[2:4] == (77, 77)


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("magic", [0, 1])
@given(records=record_lists(), cut=st.integers(0, 1 << 12))
def test_messages_that_come_in_two_parts_become_the_same_section(
    module: ModuleType, magic: int, records: list[Record], cut: int
) -> None:
    messages = build_message_set(records, magic=magic)
    cut %= len(messages)
    whole, count, base_timestamp, *rest, _ = module.up_convert_messages(messages, magic, False, 0)
    first, count_1, base_timestamp_1, *rest_1, end = module.up_convert_messages(messages[:cut], magic, False, 0)
    second, count_2, base_timestamp_2, *rest_2, left = module.up_convert_messages(
        messages[end:], magic, False, 0, count_1, base_timestamp_1
    )
    assert (first + second, count_2, base_timestamp_2) == (whole, count, base_timestamp)
    assert end <= cut
    assert end + left == len(messages)
    assert rest == [max(rest_1[0], rest_2[0]), min(rest_1[1], rest_2[1]), rest_1[2] + rest_2[2]]


@needs_both
@given(
    records=record_lists(),
    magic=st.integers(0, 1),
    changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=4),
    expected_magic=st.integers(0, 1),
)
def test_both_do_the_same_with_damaged_messages(
    records: list[Record], magic: int, changes: list[tuple[int, int]], expected_magic: int
) -> None:
    assert _conversions_native is not None
    messages = bytearray(build_message_set(records[:1], magic=magic))
    for at, byte in changes:
        messages[8 + at % (len(messages) - 8)] = byte
    messages[12:16] = zlib.crc32(messages[16:]).to_bytes(4, "big")
    for arguments in ((messages, expected_magic, False, 0), (messages * 2, magic, True, 3)):
        assert outcome(_conversions_native.up_convert_messages, *arguments) == outcome(
            _conversions_python.up_convert_messages, *arguments
        )


@pytest.mark.parametrize("module", BOTH)
def test_large_sections_are_converted_without_the_gil(module: ModuleType) -> None:
    records = some_records(300, value_size=1000)
    section, base_offset, base_timestamp = section_of(records)
    assert len(section) > 256 << 10
    messages, count, *_ = module.down_convert_records(section, 300, base_offset, base_timestamp, False, 0, 1, EVERY, False)
    assert (messages, count) == (build_message_set(records, magic=1), 300)
    assert module.up_convert_messages(messages, 1, False, 0)[1] == 300


@pytest.mark.parametrize("module", BOTH)
@given(records=record_lists(), end=st.integers(0, 1 << 16), count=st.integers(-2, 14))
def test_every_truncation_and_every_wrong_count_is_refused(
    module: ModuleType, records: list[Record], end: int, count: int
) -> None:
    section, base_offset, base_timestamp = section_of(records)
    cut = section[: end % (len(section) + 1)]
    if count <= len(records):
        first = build_record_section(records[: max(count, 0)], base_offset=Offset(base_offset), base_timestamp=base_timestamp)
        if len(cut) == len(first):
            return  # exactly the first `count` records, whole
    with pytest.raises(InvalidRecordError):
        module.down_converted_size(cut, count, base_offset, 1, EVERY)
    with pytest.raises(InvalidRecordError):
        module.down_convert_records(cut, count, base_offset, base_timestamp, False, 0, 1, EVERY, False)


@needs_both
@given(
    records=record_lists(has_gaps=True),
    changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=6),
    count=st.integers(0, 14),
    base_timestamp=st.integers(-(1 << 63), (1 << 63) - 1),
    base_offset=st.integers(-(1 << 63), (1 << 63) - 1),
)
def test_both_do_the_same_with_damaged_records(
    records: list[Record], changes: list[tuple[int, int]], count: int, base_timestamp: int, base_offset: int
) -> None:
    section = bytearray(section_of(records)[0])
    for at, byte in changes:
        section[at % len(section)] = byte
    for function, arguments in (
        ("down_converted_size", (count, base_offset, 0, base_offset)),
        ("down_convert_records", (count, base_offset, base_timestamp, False, 0, 1, EVERY, False)),
        ("down_convert_records", (count, base_offset, base_timestamp, True, 5, 0, EVERY, True)),
    ):
        assert outcome(getattr(_conversions_native, function), section, *arguments) == outcome(
            getattr(_conversions_python, function), section, *arguments
        )


@pytest.mark.parametrize("module", BOTH)
def test_timestamps_and_offsets_beyond_64_bits_are_refused(module: ModuleType) -> None:
    section, *_ = section_of(some_records(2))
    with pytest.raises(InvalidRecordError, match="64 bits"):
        module.down_converted_size(section, 2, (1 << 63) - 1, 1, EVERY)
    far_apart = build_message_set([Record(Offset(0), -(1 << 63), None, None), Record(Offset(1), 1, None, None)], magic=1)
    with pytest.raises(InvalidRecordError, match="64 bits"):
        module.up_convert_messages(far_apart, 1, False, 0)


def test_every_conversion_has_its_native_part() -> None:
    assert set(conversions.__all__) == {*_conversions_python.__all__, "IS_NATIVE"}


PLAIN = {
    "usual": batch_of(10, 20),
    "log append time": batch_of(10, 20, timestamp_type=TimestampType.LOG_APPEND_TIME),
    "emptied": bytes(build_batch([], base_offset=Offset(20), last_offset=Offset(29), leader_epoch=LeaderEpoch(0))),
}
NOT_PLAIN = {
    "compressed": batch_of(10, 20, compression=CompressionType.LZ4),
    "zstd": batch_of(10, 20, compression=CompressionType.ZSTD),
    "control": batch_of(1, 20, is_control=True),
    "damaged": batch_of(10, 20)[:-1] + b"!",
    "cut": batch_of(10, 20)[:-1],
    "cut in its header": batch_of(10, 20)[:40],
    "old": build_message_set(some_records(3, base_offset=20), magic=1),
    "larger than a plain one": bytes(build_batch(some_records(300, base_offset=20, value_size=1000))),
}


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("between", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("first_offset", [0, 4, 10, 35])
def test_one_call_converts_all_plain_batches(module: ModuleType, magic: int, between: bytes, first_offset: int) -> None:
    data = b"before" + batch_of(10, 0) + between + batch_of(10, 30)
    messages, count = down_convert(data[6:], to_magic=magic, first_offset=Offset(first_offset))
    assert module.down_convert_batches(memoryview(data), 6, magic, first_offset, MUCH) == (messages, len(data), count)


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("other", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_a_batch_that_is_not_plain_ends_the_call(module: ModuleType, other: bytes) -> None:
    plain = batch_of(10, 0)
    messages, count = down_convert(plain, to_magic=1, first_offset=Offset(0))
    assert module.down_convert_batches(plain + other + plain, 0, 1, 0, MUCH) == (messages, len(plain), count)
    assert module.down_convert_batches(other, 0, 1, 0, MUCH) == (b"", 0, 0)


@pytest.mark.parametrize("module", BOTH)
def test_a_batch_that_has_no_room_ends_the_call(module: ModuleType) -> None:
    plain = batch_of(10, 0)
    messages, count = down_convert(plain, to_magic=1, first_offset=Offset(0))
    room = 3 * len(messages)
    assert module.down_convert_batches(plain * 4, 0, 1, 0, room) == (messages * 3, len(plain) * 3, count * 3)
    assert module.down_convert_batches(plain * 4, 0, 1, 0, room - 1) == (messages * 2, len(plain) * 2, count * 2)


@pytest.mark.parametrize("module", BOTH)
def test_a_batch_with_a_timestamp_out_of_range_ends_the_call(module: ModuleType) -> None:
    plain = batch_of(10, 0)
    records = [Record(Offset(0), 0, None, b"v"), Record(Offset(1), 1, None, b"v")]
    beyond = bytearray(build_batch(records))
    beyond[27:35] = ((1 << 63) - 1).to_bytes(8)
    beyond[17:21] = crc32c(beyond[21:]).to_bytes(4)
    messages, count = down_convert(plain, to_magic=1, first_offset=Offset(0))
    assert module.down_convert_batches(plain + bytes(beyond) + plain, 0, 1, 0, MUCH) == (messages, len(plain), count)


@needs_both
@pytest.mark.parametrize("use_instruction", [False, True])
def test_the_checksum_of_a_batch_is_right_at_every_length(use_instruction: bool) -> None:
    assert _conversions_native is not None
    _conversions_native._use_crc32c(use_instruction)
    try:
        for size in [*range(1, 3000, 7), *range(3000, 9000, 501)]:
            data = bytes(build_batch([Record(Offset(0), 5, None, random.randbytes(size))]))
            assert _conversions_native.down_convert_batches(data, 0, 1, 0, MUCH)[1] == len(data)
            assert _conversions_native.down_convert_batches(data[:-9] + b"?" + data[-8:], 0, 1, 0, MUCH)[1] in {
                0,
                len(data) * (data[-9] == 63),
            }
    finally:
        _conversions_native._use_crc32c(True)


@needs_both
@given(
    records=record_lists(has_gaps=True),
    changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=4),
    is_signed=st.booleans(),
    first_offset=st.integers(0, 20),
    room=st.integers(0, 4000),
)
def test_both_convert_damaged_batches_alike(
    records: list[Record], changes: list[tuple[int, int]], is_signed: bool, first_offset: int, room: int
) -> None:
    assert _conversions_native is not None
    good = bytes(build_batch(records))
    data = bytearray(good)
    for at, byte in changes:
        data[at % len(data)] = byte
    if is_signed:
        data[17:21] = crc32c(data[21:]).to_bytes(4)
    for batches in (bytes(data) + good, good + bytes(data) + good):
        arguments: tuple[Any, ...] = (batches, 0, 1, first_offset, room)
        assert _conversions_native.down_convert_batches(*arguments) == _conversions_python.down_convert_batches(*arguments)
