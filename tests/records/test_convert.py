"""Whole batches down to messages and messages up to batches, on both sets of kernels."""

from __future__ import annotations

import itertools
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.model import CoordinatorEpoch, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.records import legacy
from pybroker.records.batch import HEADER_SIZE, Record, TimestampType, batches
from pybroker.records.build import build_batch, build_message, build_message_set
from pybroker.records.compression import CompressionType, compress
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from pybroker.records.convert import down_convert
from pybroker.records.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from testing.cases import in_case
from testing.scenes.record_lists import BOTH, KERNELS, kernels_of, record_lists, some_records, unless_corrupt
from testing.up_convert import up_convert

OLD_CODECS = [CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4]
MARKER = TransactionMarker(ControlType.COMMIT, CoordinatorEpoch(0))


def old(records: list[Record], magic: int) -> list[Record]:
    return [record._replace(headers=(), timestamp=record.timestamp if magic else -1) for record in records]


@given(records=record_lists(has_gaps=True))
def test_down_and_up_again_loses_only_headers(records: list[Record]) -> None:
    for name, codec, magic in itertools.product(KERNELS, OLD_CODECS, (0, 1)):
        with in_case(f"{name}, {codec!r}, magic {magic}"):
            go_down_and_up(KERNELS[name], codec, magic, records)


def go_down_and_up(module: ModuleType, codec: CompressionType, magic: int, records: list[Record]) -> None:
    with kernels_of(module):
        converted = down_convert(build_batch(records, compression=codec), to_magic=magic, first_offset=Offset(0))
        assert converted.record_count == len(records)
        assert list(legacy.records(converted.data)) == old(records, magic)
        if not codec:
            assert converted.data == build_message_set(records, magic=magic)
        (batch,) = batches(up_convert(converted.data, base_offset=7, leader_epoch=LeaderEpoch(3)))
    batch.ensure_valid()
    assert (batch.base_offset, batch.partition_leader_epoch, batch.compression) == (7, 3, codec)
    assert list(batch.records()) == [r._replace(offset=Offset(7 + i)) for i, r in enumerate(old(records, magic))]


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_records_before_the_first_offset_go_only_without_a_codec(codec: CompressionType) -> None:
    records = some_records(10, base_offset=100)
    converted = down_convert(build_batch(records, compression=codec), to_magic=1, first_offset=Offset(104))
    assert [record.offset for record in legacy.records(converted.data)] == list(range(100 if codec else 104, 110))
    assert converted.record_count == (10 if codec else 6)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_has_the_offset_of_its_last_and_relative_ones_inside(magic: int) -> None:
    records = [some_records(1, base_offset=offset)[0] for offset in (500, 503, 509)]
    batch = build_batch(records, base_offset=Offset(490), compression=CompressionType.GZIP)
    (wrapper,) = legacy.messages(down_convert(batch, to_magic=magic, first_offset=Offset(505)).data)
    assert wrapper.offset == 509
    assert [message.offset for message in legacy.messages(wrapper.inner_messages())] == ([0, 3, 9] if magic else [500, 503, 509])


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_log_append_time_is_kept(codec: CompressionType) -> None:
    batch = build_batch(some_records(3), compression=codec, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=88)
    down = down_convert(batch, to_magic=1, first_offset=Offset(0)).data
    assert all(message.timestamp_type is TimestampType.LOG_APPEND_TIME for message in legacy.messages(down))
    assert [record.timestamp for record in legacy.records(down)] == [88] * 3
    (up,) = batches(up_convert(down, base_offset=0))
    assert (up.timestamp_type, up.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 88)
    down = down_convert(batch, to_magic=0, first_offset=Offset(0)).data
    assert all(message.attributes == codec for message in legacy.messages(down))


def test_control_batches_and_emptied_ones_are_left_out() -> None:
    source = (
        build_transaction_marker(MARKER, producer_id=ProducerId(1), producer_epoch=ProducerEpoch(0), timestamp_ms=1)
        + build_batch(some_records(2, base_offset=1))
        + build_batch([], base_offset=Offset(3), last_offset=Offset(9))
        + build_batch([], base_offset=Offset(10), last_offset=Offset(11), compression=CompressionType.GZIP)
        + build_batch(some_records(1, base_offset=12))
    )
    assert [record.offset for record in legacy.records(down_convert(source, to_magic=1, first_offset=Offset(0)).data)] == [
        1,
        2,
        12,
    ]


def test_zstd_cannot_be_converted() -> None:
    with pytest.raises(UnsupportedCompressionError):
        down_convert(build_batch(some_records(2), compression=CompressionType.ZSTD), to_magic=1, first_offset=Offset(0))


def test_damage_on_disk_does_not_get_a_new_checksum() -> None:
    batch = build_batch(some_records(2))
    batch[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        down_convert(batch, to_magic=1, first_offset=Offset(0))


def test_what_is_old_enough_passes_and_magic_1_becomes_magic_0() -> None:
    records = some_records(3, base_offset=4)
    for codec in OLD_CODECS:
        one = build_message_set(records, magic=1, compression=codec)
        assert down_convert(one, to_magic=1, first_offset=Offset(6)).data == one
        zero = down_convert(one, to_magic=0, first_offset=Offset(6)).data
        assert list(legacy.records(zero)) == old(records if codec else records[2:], 0)
        assert down_convert(zero, to_magic=0, first_offset=Offset(6)).data == zero


def test_lz4_keeps_its_wrong_checksum_for_magic_0_only() -> None:
    batch = build_batch(some_records(30), compression=CompressionType.LZ4)
    for magic, checksum in ((0, 0x1A), (1, 0x82)):
        (wrapper,) = legacy.messages(down_convert(batch, to_magic=magic, first_offset=Offset(0)).data)
        value = wrapper.key_and_value()[1]
        assert value is not None
        assert value[6] == checksum


def test_every_wrapper_and_every_run_becomes_a_batch() -> None:
    records = some_records(2)
    plain, wrapped = build_message_set(records, magic=1), build_message_set(records, magic=1, compression=CompressionType.GZIP)
    source = plain + plain + wrapped + wrapped + build_message_set(records, magic=0) + plain[:-3]
    found = list(batches(up_convert(source, base_offset=10)))
    assert [(batch.base_offset, batch.record_count, batch.compression) for batch in found] == [
        (10, 4, CompressionType.NONE),
        (14, 2, CompressionType.GZIP),
        (16, 2, CompressionType.GZIP),
        (18, 2, CompressionType.NONE),
        (20, 1, CompressionType.NONE),
    ]
    assert [record.timestamp for record in found[3].records()] == [-1, -1]


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize(
    ("inner_magic", "inner_codec"), [(0, CompressionType.NONE), (1, CompressionType.GZIP)], ids=["other magic", "nested"]
)
def test_wrappers_that_cannot_be_are_refused(module: ModuleType, inner_magic: int, inner_codec: CompressionType) -> None:
    inner = build_message_set(some_records(2), magic=inner_magic, compression=inner_codec)
    wrapper = build_message(Offset(1), timestamp=0, key=None, value=compress(CompressionType.GZIP, inner), magic=1, attributes=1)
    with kernels_of(module), pytest.raises(InvalidRecordError):
        up_convert(wrapper, base_offset=0)


@pytest.mark.parametrize("module", BOTH)
@given(at=st.integers(0, 1 << 16), byte=st.integers(0, 255), codec=st.sampled_from(OLD_CODECS))
def test_hostile_batches_never_crash(module: ModuleType, at: int, byte: int, codec: CompressionType) -> None:
    batch = build_batch(some_records(4), compression=codec)
    batch[HEADER_SIZE - 4 + at % (len(batch) - HEADER_SIZE + 4)] = byte
    (view,) = batches(batch)
    batch[17:21] = view.computed_crc().to_bytes(4, "big")
    with kernels_of(module):
        found = unless_corrupt(lambda: down_convert(batch, to_magic=1, first_offset=Offset(0), bytes_max=1 << 20))
    assert found is None or len(found.data) < 1 << 20
