"""Batches of magic 2 against golden bytes, kafka-python, aiokafka, and damage of every kind."""

from __future__ import annotations

from typing import Any

import aiokafka.record.default_records as aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.model import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.records.batch import (
    HEADER_SIZE,
    NO_SEQUENCE,
    SEQUENCE_MAX,
    BatchView,
    Record,
    TimestampType,
    batches,
    entry_size,
    increment_sequence,
    set_max_timestamp,
    set_offset_and_epoch,
)
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.records.errors import CorruptRecordError, InvalidRecordError
from testing.cases import in_case
from testing.scenes.record_lists import kafka_default as kp
from testing.scenes.record_lists import record_lists, some_records, unless_corrupt

# One record, as the Java client 3.9 (MemoryRecords.withRecords) writes it.
GOLDEN = bytes.fromhex(
    "0000000000000007"  # base offset
    "0000003d"  # length
    "00000003"  # leader epoch
    "02"
    "1512159f"  # checksum
    "0000"  # attributes
    "00000000"  # last offset delta
    "000000000000000a"  # base timestamp
    "000000000000000a"  # max timestamp
    "ffffffffffffffff"
    "ffff"
    "ffffffff"
    "00000001"  # count
    "16"  # 11 bytes
    "00"
    "00"
    "00"
    "026b"  # k
    "0276"  # v
    "02"  # one header
    "0268"  # h
    "01"  # null
)


def readable(buffer: bytes | bytearray) -> BatchView:
    (batch,) = batches(buffer)
    return batch


def test_the_golden_batch() -> None:
    record = Record(Offset(7), 10, b"k", b"v", (("h", None),))
    assert bytes(build_batch([record], leader_epoch=LeaderEpoch(3))) == GOLDEN
    batch = readable(GOLDEN)
    batch.ensure_valid()
    assert list(batch.records()) == [record]
    assert (batch.base_offset, batch.last_offset, batch.next_offset, batch.batch_length) == (7, 7, 8, len(GOLDEN))
    assert (batch.record_count, batch.max_timestamp, batch.partition_leader_epoch) == (1, 10, 3)
    assert not batch.has_producer_id
    assert batch.last_sequence == NO_SEQUENCE


@given(records=record_lists())
def test_others_read_what_we_build(records: list[Record]) -> None:
    producer: Any = {"producer_id": ProducerId(5), "producer_epoch": ProducerEpoch(1), "base_sequence": 9}
    for codec in CompressionType:
        with in_case(repr(codec)):
            built = bytes(build_batch(records, compression=codec, **producer))
            for theirs in (kp.DefaultRecordBatch(built), aio.DefaultRecordBatch(built)):
                assert theirs.validate_crc()
                assert [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == records


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("library", [kp, aio], ids=["kafka-python", "aiokafka"])
def test_we_read_what_others_build(codec: CompressionType, library: object) -> None:
    records = some_records(50)
    builder = library.DefaultRecordBatchBuilder(  # type: ignore[attr-defined]  # either module
        magic=2, compression_type=codec, is_transactional=1, producer_id=77, producer_epoch=2, base_sequence=3, batch_size=1 << 20
    )
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    batch = readable(bytes(builder.build()))
    batch.ensure_valid()
    assert batch.compression is codec
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (77, 2, 3, 52)
    assert list(batch.records()) == records


@given(records=record_lists(has_gaps=True), codec=st.sampled_from(CompressionType))
def test_a_batch_gives_back_its_records(records: list[Record], codec: CompressionType) -> None:
    batch = readable(build_batch(records, compression=codec))
    batch.ensure_valid()
    assert list(batch.records()) == records
    assert batch.last_offset == records[-1].offset


def test_log_append_time_holds_for_every_record() -> None:
    built = build_batch(some_records(3), timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=42)
    assert [record.timestamp for record in readable(built).records()] == [42] * 3


def test_a_batch_that_compaction_emptied_keeps_its_range() -> None:
    batch = readable(build_batch([], base_offset=Offset(5), last_offset=Offset(9)))
    assert (batch.base_offset, batch.last_offset, list(batch.records())) == (5, 9, [])


def test_the_brokers_fields_are_outside_the_checksum() -> None:
    built = build_batch(some_records(3))
    set_offset_and_epoch(built, base_offset=Offset(1 << 40), leader_epoch=LeaderEpoch(12))
    batch = readable(built)
    batch.ensure_valid()
    assert (batch.base_offset, batch.partition_leader_epoch) == (1 << 40, 12)
    set_max_timestamp(built, TimestampType.LOG_APPEND_TIME, 99)
    batch = readable(built)
    batch.ensure_valid()
    assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 99)


def test_sequences_wrap_to_zero() -> None:
    assert increment_sequence(SEQUENCE_MAX - 1, 1) == SEQUENCE_MAX
    assert increment_sequence(SEQUENCE_MAX, 1) == 0
    assert increment_sequence(SEQUENCE_MAX, 11) == 10


def test_batches_stop_before_a_partial_one_wherever_it_is_cut() -> None:
    first, second = bytes(build_batch(some_records(2))), bytes(build_batch(some_records(3, base_offset=2)))
    buffer = first + second
    for end in range(len(buffer) + 1):
        whole = (end >= len(first)) + (end == len(buffer))
        assert [batch.base_offset for batch in batches(buffer[:end])] == [0, 2][:whole]


@pytest.mark.parametrize(
    ("at", "value"), [(8, b"\x00\x00\x00\x0d"), (8, b"\xff\xff\xff\xff"), (8, b"\x00\x00\x00\x30"), (16, b"\x03"), (16, b"\xff")]
)
def test_sizes_and_magics_that_cannot_be_are_refused(at: int, value: bytes) -> None:
    damaged = GOLDEN[:at] + value + GOLDEN[at + len(value) :]
    with pytest.raises(CorruptRecordError):
        entry_size(damaged)
    with pytest.raises(CorruptRecordError):
        list(batches(damaged))


def test_the_checksum_finds_every_change_of_a_byte() -> None:
    built = build_batch(some_records(3))
    for at in range(17, len(built)):
        damaged = bytearray(built)
        damaged[at] ^= 0x41
        assert not BatchView(memoryview(damaged)).is_valid


@given(at=st.integers(0, 1 << 16), byte=st.integers(0, 255), codec=st.sampled_from(CompressionType), cut=st.integers(0, 40))
def test_records_that_are_none_never_crash(at: int, byte: int, codec: CompressionType, cut: int) -> None:
    """Skip the checksum, because a hostile producer can compute it."""
    built = build_batch(some_records(5), compression=codec)
    built[HEADER_SIZE - 4 + at % (len(built) - HEADER_SIZE + 4)] = byte
    batch = BatchView(memoryview(built))
    batch.batch_length -= cut
    batch.record_count = min(batch.record_count, 1000)
    found = unless_corrupt(lambda: list(batch.records(bytes_max=1 << 20)))
    assert found is None or len(found) <= 1000


def test_an_unknown_codec_is_refused() -> None:
    built = build_batch(some_records(1))
    built[22] |= 7
    with pytest.raises(InvalidRecordError, match="no codec"):
        list(readable(built).records())
