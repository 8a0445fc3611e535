"""Validation and the giving of offsets, by the cases of Kafka's LogValidatorTest."""

from __future__ import annotations

import random
import tracemalloc
import zlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.config.topic import TopicConfig
from pybroker.model import CoordinatorEpoch, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records import rebuild
from pybroker.records.batch import HEADER_SIZE, BatchView, Record, TimestampType, batches, set_offset_and_epoch
from pybroker.records.build import assemble_batch, build_batch, build_message_set
from pybroker.records.compression import CompressionType, compress, inflated
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from pybroker.records.errors import RecordValidationError
from pybroker.records.rules import ValidationRules
from pybroker.records.validate import ValidationResult, check, validate_and_assign
from pybroker.records.work import LongWorkError, Work
from testing.scenes.record_lists import BASE_MS, BOTH, kernels_of, record_lists, some_records, unless_corrupt

NOW_MS = BASE_MS + 1000
RULES = ValidationRules(max_message_bytes=1 << 20)
OLD_CODECS = list(CompressionType)[:4]


def validate(records: bytes | bytearray, rules: ValidationRules = RULES, **options: Any) -> ValidationResult:
    return validate_and_assign(
        memoryview(records), first_offset=Offset(1000), now_ms=NOW_MS, leader_epoch=LeaderEpoch(7), rules=rules, **options
    )


def rules_with(**changes: Any) -> ValidationRules:
    return ValidationRules(max_message_bytes=1 << 20, **changes)


def refusal(records: bytes | bytearray, rules: ValidationRules = RULES, **options: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        validate(records, rules, **options)
    return caught.value.code


def stored(result: ValidationResult) -> list[Record]:
    (batch,) = batches(result.data)
    batch.ensure_valid()
    assert batch.partition_leader_epoch == 7
    for name in BatchView.__slots__:
        if name != "buffer":
            assert getattr(batch, name) == getattr(result.batches[0], name), "the header is given as it is written"
    assert (result.first_offset, result.last_offset) == (batch.base_offset, batch.last_offset)
    assert (result.record_count, result.max_timestamp) == (batch.record_count, batch.max_timestamp)
    return list(batch.records())


def moved(records: list[Record]) -> list[Record]:
    return [record._replace(offset=Offset(1000 + index)) for index, record in enumerate(records)]


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("codec", CompressionType)
def test_a_good_batch_is_patched_where_it_lies(module: ModuleType, codec: CompressionType) -> None:
    records = some_records(20)
    sent = build_batch(records, compression=codec, producer_id=ProducerId(4), producer_epoch=ProducerEpoch(1), base_sequence=6)
    with kernels_of(module):
        result = validate(sent, produce_version=9)
    assert stored(result) == moved(records)
    assert not result.is_rebuilt
    assert (result.log_append_time, result.records_converted) == (-1, 0)
    assert (result.max_timestamp, result.offset_of_max_timestamp) == (records[-1].timestamp, 1019)
    assert result.data.obj is sent, "nothing was copied"
    assert BatchView(memoryview(sent)).base_offset == 1000


def test_a_buffer_that_cannot_be_written_is_copied() -> None:
    sent = bytes(build_batch(some_records(3)))
    assert stored(validate(sent)) == moved(some_records(3))
    assert BatchView(memoryview(sent)).base_offset == 0


@pytest.mark.parametrize("source", CompressionType)
@pytest.mark.parametrize("target", CompressionType)
def test_the_topics_codec_wins(source: CompressionType, target: CompressionType) -> None:
    sent = build_batch(
        some_records(9),
        compression=source,
        producer_id=ProducerId(4),
        producer_epoch=ProducerEpoch(1),
        base_sequence=6,
        is_transactional=True,
    )
    result = validate(sent, rules_with(compression=target, level=1 if target else None))
    assert stored(result) == moved(some_records(9))
    batch = result.batches[0]
    assert (batch.compression, batch.producer_id, batch.base_sequence, batch.is_transactional) == (target, 4, 6, True)
    assert result.is_rebuilt is (source is not target)


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("source", OLD_CODECS)
@pytest.mark.parametrize("target", [None, *CompressionType])
def test_old_messages_become_one_batch(
    module: ModuleType, magic: int, source: CompressionType, target: CompressionType | None
) -> None:
    records = some_records(9, base_offset=50)
    with kernels_of(module):
        sent = build_message_set(records, magic=magic, compression=source, wrapper_offset=Offset(0))
        result = validate(sent, rules_with(compression=target), produce_version=magic + 1)
    assert stored(result) == [r._replace(headers=(), timestamp=r.timestamp if magic else -1) for r in moved(records)]
    assert result.batches[0].compression is (source if target is None else target)
    assert (result.is_rebuilt, result.records_converted) == (True, 9)
    assert result.offset_of_max_timestamp == (1008 if magic else -1)


@pytest.mark.parametrize("codec", CompressionType)
def test_log_append_time(codec: CompressionType) -> None:
    rules = rules_with(is_log_append_time=True, timestamp_before_max_ms=0)
    result = validate(build_batch(some_records(3), compression=codec), rules)
    assert [record.timestamp for record in stored(result)] == [NOW_MS] * 3
    assert (result.log_append_time, result.max_timestamp, result.offset_of_max_timestamp) == (NOW_MS, NOW_MS, 1002)
    assert not result.is_rebuilt
    if codec is not CompressionType.ZSTD:
        result = validate(build_message_set(some_records(3), magic=1, compression=codec), rules)
        assert [record.timestamp for record in stored(result)] == [NOW_MS] * 3
        assert result.log_append_time == NOW_MS


def test_log_append_time_is_not_the_producers_to_set() -> None:
    sent = build_batch(some_records(2), timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=NOW_MS)
    assert refusal(bytes(sent), rules_with(is_log_append_time=True)) is ErrorCode.INVALID_TIMESTAMP
    # In a topic with CreateTime Kafka takes the batch, and its one timestamp as the producer's.
    result = validate(sent)
    assert result.batches[0].timestamp_type is TimestampType.CREATE_TIME
    assert stored(result)[0].timestamp == some_records(1)[0].timestamp
    sent = build_batch(some_records(2), timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=-1)
    assert refusal(sent) is ErrorCode.INVALID_TIMESTAMP
    wrapper = build_message_set(
        some_records(2),
        magic=1,
        compression=CompressionType.GZIP,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time_ms=5,
    )
    assert refusal(wrapper, rules_with(is_log_append_time=True)) is ErrorCode.INVALID_TIMESTAMP


def test_a_wrong_max_timestamp_is_put_right() -> None:
    sent = build_batch(some_records(3))
    BatchView(memoryview(sent))
    sent[35:43] = (5).to_bytes(8, "big")
    sent[17:21] = BatchView(memoryview(sent)).computed_crc().to_bytes(4, "big")
    assert validate(sent).max_timestamp == some_records(3)[-1].timestamp


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_timestamps_too_far_from_now_are_named(module: ModuleType, magic: int, codec: CompressionType) -> None:
    records = [
        Record(Offset(index), timestamp, b"k", b"v")
        for index, timestamp in enumerate([NOW_MS, NOW_MS - 101, -1, NOW_MS + 50, NOW_MS + 51, NOW_MS - 100])
    ]
    sent = build_batch(records, compression=codec) if magic == 2 else build_message_set(records, magic=1, compression=codec)
    rules = rules_with(timestamp_before_max_ms=100, timestamp_after_max_ms=50)
    with kernels_of(module), pytest.raises(RecordValidationError) as caught:
        validate(sent, rules)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in caught.value.record_errors] == [1, 4]
    good = [record for record in records if record.offset not in {1, 4}]
    good = [record._replace(offset=Offset(index)) for index, record in enumerate(good)]
    assert validate(build_batch(good, compression=codec), rules).record_count == 4


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_a_compacted_topic_needs_keys(module: ModuleType, magic: int, codec: CompressionType) -> None:
    records = some_records(6)
    records[2] = records[2]._replace(key=None)
    records[5] = records[5]._replace(key=None)
    sent = build_batch(records, compression=codec) if magic == 2 else build_message_set(records, magic=magic, compression=codec)
    with kernels_of(module), pytest.raises(RecordValidationError) as caught:
        validate(sent, rules_with(is_compacted=True))
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in caught.value.record_errors] == [2, 5]
    assert validate(sent).record_count == 6
    empty_keys = build_batch([record._replace(key=b"") for record in records], compression=codec)
    assert validate(empty_keys, rules_with(is_compacted=True)).record_count == 6


@pytest.mark.parametrize("codec", CompressionType)
def test_offsets_that_do_not_count_are_mended(codec: CompressionType) -> None:
    records = [record._replace(offset=Offset(3)) for record in some_records(3)]
    sent = build_batch(records, base_offset=Offset(0), last_offset=Offset(2), compression=codec)
    result = validate(sent)
    assert stored(result) == moved(records)
    assert result.is_rebuilt


def test_a_marker_of_the_coordinator_passes_and_stays_uncompressed() -> None:
    marker = build_transaction_marker(
        TransactionMarker(ControlType.COMMIT, CoordinatorEpoch(0)),
        producer_id=ProducerId(1),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=NOW_MS,
    )
    assert refusal(bytes(marker)) is ErrorCode.INVALID_RECORD
    result = validate(marker, rules_with(compression=CompressionType.GZIP), from_client=False)
    assert (result.batches[0].compression, result.batches[0].is_control) == (CompressionType.NONE, True)


def patched(position: int, value: bytes) -> bytes:
    sent = build_batch(some_records(3), producer_id=ProducerId(4), producer_epoch=ProducerEpoch(0), base_sequence=0)
    sent[position : position + len(value)] = value
    sent[17:21] = BatchView(memoryview(sent)).computed_crc().to_bytes(4, "big")
    return bytes(sent)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (patched(0, bytes(7) + b"\1"), ErrorCode.INVALID_RECORD),
        (patched(23, bytes(3) + b"\1"), ErrorCode.INVALID_RECORD),
        (patched(23, b"\xff" * 4), ErrorCode.INVALID_RECORD),
        (patched(57, bytes(4)), ErrorCode.INVALID_RECORD),
        (patched(57, bytes(3) + b"\2"), ErrorCode.INVALID_RECORD),
        (patched(57, b"\xff" * 4), ErrorCode.INVALID_RECORD),
        (patched(53, b"\xff" * 4), ErrorCode.INVALID_RECORD),
        (patched(22, b"\x20"), ErrorCode.INVALID_RECORD),
        (patched(22, b"\x05"), ErrorCode.INVALID_RECORD),
        (patched(22, b"\x01"), ErrorCode.CORRUPT_MESSAGE),
        (patched(0, b"")[:-1] + b"\7", ErrorCode.CORRUPT_MESSAGE),
        (patched(16, b"\3"), ErrorCode.CORRUPT_MESSAGE),
        (patched(8, b"\0\0\0\1"), ErrorCode.CORRUPT_MESSAGE),
        (patched(0, b"") * 2, ErrorCode.INVALID_RECORD),
        (build_message_set(some_records(2), magic=1, compression=CompressionType.GZIP) * 2, ErrorCode.INVALID_RECORD),
        (
            build_message_set(some_records(2), magic=1)
            + build_message_set(some_records(2), magic=1, compression=CompressionType.GZIP),
            ErrorCode.INVALID_RECORD,
        ),
        (build_message_set(some_records(1), magic=1) + build_message_set(some_records(1), magic=0), ErrorCode.INVALID_RECORD),
        (build_message_set(some_records(1), magic=1) + patched(0, b""), ErrorCode.INVALID_RECORD),
        (build_message_set(some_records(2), magic=1)[:-1] + b"\7", ErrorCode.CORRUPT_MESSAGE),
        (build_message_set([Record(Offset(0), -2, None, None)], magic=1), ErrorCode.INVALID_RECORD),
    ],
)
@pytest.mark.parametrize("module", BOTH)
def test_what_is_refused(module: ModuleType, sent: bytes, code: ErrorCode) -> None:
    with kernels_of(module):
        assert refusal(sent) is code


def test_what_old_and_new_requests_may_hold() -> None:
    zstd = build_batch(some_records(1), compression=CompressionType.ZSTD)
    assert refusal(bytes(zstd), produce_version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert validate(zstd, produce_version=7).record_count == 1
    message = build_message_set(some_records(1), magic=1)
    assert refusal(message, produce_version=3) is ErrorCode.INVALID_RECORD
    assert refusal(b"", produce_version=3) is ErrorCode.INVALID_RECORD
    assert validate(build_batch(some_records(1)), produce_version=2).record_count == 1


@pytest.mark.parametrize("sent", [b"", b"\0" * 8, build_message_set(some_records(1), magic=0)[:-1]])
def test_nothing_in_an_old_request_is_nothing_appended(sent: bytes) -> None:
    result = validate(sent, produce_version=2)
    assert (result.batches, bytes(result.data), result.record_count, result.first_offset) == ([], b"", 0, -1)
    assert (result.last_offset, result.max_timestamp, result.offset_of_max_timestamp) == (-1, -1, -1)


def test_a_partial_batch_at_the_end_is_ignored() -> None:
    sent = build_batch(some_records(3))
    assert validate(sent + sent[:-1]).data.nbytes == len(sent)
    messages = build_message_set(some_records(3), magic=1)
    assert validate(messages + messages[:20]).record_count == 3


def test_sizes_as_sent_and_as_rebuilt_are_bounded() -> None:
    sent = build_batch(some_records(100), compression=CompressionType.GZIP)
    assert validate(bytes(sent), ValidationRules(max_message_bytes=len(sent))).record_count == 100
    assert refusal(bytes(sent), ValidationRules(max_message_bytes=len(sent) - 1)) is ErrorCode.MESSAGE_TOO_LARGE
    plain = ValidationRules(max_message_bytes=len(sent), compression=CompressionType.NONE)
    assert refusal(bytes(sent), plain) is ErrorCode.MESSAGE_TOO_LARGE
    messages = build_message_set(some_records(100), magic=1)
    size = len(messages) // 100
    assert refusal(messages, ValidationRules(max_message_bytes=size - 1)) is ErrorCode.MESSAGE_TOO_LARGE
    wrapper = build_message_set(some_records(100), magic=1, compression=CompressionType.GZIP)
    assert refusal(wrapper, ValidationRules(max_message_bytes=len(wrapper) - 1)) is ErrorCode.MESSAGE_TOO_LARGE


def alike(count: int, record: bytes, codec: CompressionType = CompressionType.ZSTD) -> bytearray:
    """Return a batch of `count` times the same record: a few hundred bytes when compressed."""
    return assemble_batch(
        compress(codec, record * count),
        base_offset=Offset(0),
        last_offset_delta=count - 1,
        attributes=codec,
        base_timestamp=BASE_MS,
        max_timestamp=BASE_MS,
        record_count=count,
    )


KEYLESS = bytes([12, 0, 0, 0, 1, 0, 0])  # timestamp and offset delta 0, no key, an empty value, no headers


def test_many_records_that_are_alike_are_numbered_without_an_object_for_each() -> None:
    count = 40_000
    sent = alike(count, KEYLESS)
    assert len(sent) < 300
    tracemalloc.start()
    try:
        result = validate(sent)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 60 * count, "a record as an object takes 200 bytes"
    (batch,) = batches(result.data)
    offset = max(record.offset for record in batch.records())
    assert (batch.record_count, offset) == (count, 1000 + count - 1)


def test_a_refusal_lists_only_the_first_of_many_records() -> None:
    with pytest.raises(RecordValidationError, match=r"\b5000 records") as caught:
        validate(alike(5000, KEYLESS), rules_with(is_compacted=True))
    assert [error.batch_index for error in caught.value.record_errors] == list(range(1000))
    with pytest.raises(RecordValidationError) as caught:
        validate(alike(5000, KEYLESS), rules_with(timestamp_before_max_ms=1))
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in caught.value.record_errors] == list(range(1000))


@pytest.mark.parametrize("target", [CompressionType.NONE, CompressionType.GZIP])
def test_a_batch_that_will_be_too_large_is_made_only_as_far_as_it_may_be(target: CompressionType) -> None:
    noise = random.Random(5).randbytes(1 << 20)
    sent = build_batch([Record(Offset(0), 5, None, noise * 30)], compression=CompressionType.ZSTD, level=19)
    rules, inflated_again = ValidationRules(max_message_bytes=2 << 20, compression=target), []

    def counted(*args: Any) -> Iterator[bytes | memoryview]:
        for piece in inflated(*args):
            inflated_again.append(len(piece))
            yield piece

    with mock.patch.object(rebuild, "inflated", counted):
        assert refusal(sent, rules) is ErrorCode.MESSAGE_TOO_LARGE
    assert (2 << 20) - HEADER_SIZE <= sum(inflated_again) < 3 << 20


def test_records_that_inflate_too_far_are_refused_before_they_are_made() -> None:
    bomb = build_batch([Record(Offset(0), 5, None, bytes(10 << 20))], compression=CompressionType.ZSTD)
    assert refusal(bomb, rules_with(inflation_max=1)) is ErrorCode.MESSAGE_TOO_LARGE
    assert validate(bomb, rules_with(inflation_max=11)).record_count == 1


def test_a_batch_for_a_compacted_topic_inflates_no_further_than_compaction_can_read() -> None:
    sent = build_batch([Record(Offset(0), 5, b"k", bytes(5 << 20))], compression=CompressionType.ZSTD)
    with mock.patch.object(rebuild, "DECOMPRESSED_BYTES_MAX", 4 << 20):
        assert refusal(bytes(sent), rules_with(is_compacted=True)) is ErrorCode.MESSAGE_TOO_LARGE
        assert validate(sent).record_count == 1


def test_what_the_batches_of_a_request_inflate_to_is_one_sum() -> None:
    batch = build_batch([Record(Offset(0), 5, None, bytes(3 << 20))], compression=CompressionType.ZSTD)
    work = Work()
    for _ in range(3):
        validate(bytes(batch), rules_with(inflation_max=10), work=work)
    assert refusal(bytes(batch), rules_with(inflation_max=10), work=work) is ErrorCode.MESSAGE_TOO_LARGE
    assert validate(bytes(batch), rules_with(inflation_max=20), work=work).record_count == 1


@pytest.mark.parametrize("codec", OLD_CODECS[1:])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_that_inflate_too_far_are_refused(codec: CompressionType, magic: int) -> None:
    bomb = build_message_set([Record(Offset(0), 5, None, bytes(10 << 20))], magic=magic, compression=codec)
    assert refusal(bomb, rules_with(inflation_max=1)) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [*CompressionType])
@pytest.mark.parametrize("is_in_order", [True, False])
@pytest.mark.parametrize("target", [None, *CompressionType])
def test_what_is_too_long_for_the_loop_is_checked_elsewhere_with_the_same_outcome(
    codec: CompressionType, target: CompressionType | None, *, is_in_order: bool
) -> None:
    records = [Record(Offset(i if is_in_order else 2 * i), 5 + i, None, bytes(1000)) for i in range(3000)]
    sent, rules = build_batch(records, compression=codec), ValidationRules(max_message_bytes=4 << 20, compression=target)
    sent[23:27] = (len(records) - 1).to_bytes(4, "big")
    sent[17:21] = BatchView(memoryview(sent)).computed_crc().to_bytes(4, "big")
    work = Work(is_on_loop=True)
    with pytest.raises(LongWorkError) as caught:
        validate(bytes(sent), rules, work=work)
    assert work.inflated_bytes == 0
    work.is_on_loop = False
    checked = caught.value.check(memoryview(bytes(sent)), work=work)
    result = checked.assigned(Offset(1000), now_ms=NOW_MS, leader_epoch=LeaderEpoch(7))
    assert bytes(result.data) == bytes(validate(bytes(sent), rules).data)
    assert [record.offset for record in stored(result)] == list(range(1000, 4000))
    assert work.inflated_bytes > 3_000_000 if codec else work.inflated_bytes == 0


def test_the_loop_looks_for_the_largest_of_few_old_messages_only() -> None:
    one = bytes(build_message_set([Record(Offset(0), 5, None, b"")], magic=0))
    sent, rules = one * (70_000 // len(one)), ValidationRules(max_message_bytes=5_000, compression=CompressionType.GZIP)
    with pytest.raises(LongWorkError) as caught:
        validate(sent, rules, work=Work(is_on_loop=True))
    assert caught.value.check(memoryview(sent), work=Work()).records_converted == len(sent) // len(one)


def test_empty_pieces_are_work_too() -> None:
    empty = zlib.compress(b"", wbits=31)
    sent = assemble_batch(
        empty * 20_000,
        base_offset=Offset(0),
        last_offset_delta=0,
        attributes=CompressionType.GZIP,
        base_timestamp=5,
        max_timestamp=5,
        record_count=1,
    )
    with pytest.raises(LongWorkError):
        validate(sent, work=Work(is_on_loop=True))
    assert refusal(sent) is ErrorCode.INVALID_RECORD


def test_cancelled_work_ends_at_the_next_piece() -> None:
    sent = build_batch([Record(Offset(0), 5, None, bytes(10 << 20))], compression=CompressionType.GZIP)
    work = Work(is_cancelled=lambda: work.inflated_bytes > 1 << 20)
    assert refusal(sent, work=work) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert work.inflated_bytes < 2 << 20


def test_the_time_of_the_append_is_that_of_the_assignment() -> None:
    for codec in (CompressionType.NONE, CompressionType.GZIP):
        checked = check(
            memoryview(bytes(build_batch(some_records(3)))), rules_with(is_log_append_time=True, compression=codec), now_ms=5
        )
        result = checked.assigned(Offset(1000), now_ms=NOW_MS, leader_epoch=LeaderEpoch(7))
        assert {record.timestamp for record in stored(result)} == {NOW_MS} == {result.log_append_time}


def test_the_rules_of_a_topic() -> None:
    config = TopicConfig(
        cleanup_policy=frozenset({"compact", "delete"}),
        compression_type="gzip",
        compression_gzip_level=9,
        max_message_bytes=77,
        message_timestamp_type="LogAppendTime",
        message_timestamp_before_max_ms=5,
        message_timestamp_after_max_ms=6,
    )
    assert ValidationRules.of(config) == ValidationRules(
        max_message_bytes=77,
        compression=CompressionType.GZIP,
        level=9,
        is_compacted=True,
        is_log_append_time=True,
        timestamp_before_max_ms=5,
        timestamp_after_max_ms=6,
    )
    assert ValidationRules.of(TopicConfig()).compression is None


@pytest.mark.parametrize("module", BOTH)
@given(records=record_lists(), source=st.sampled_from(CompressionType), target=st.none() | st.sampled_from(CompressionType))
def test_what_is_stored_is_what_was_sent(
    module: ModuleType, records: list[Record], source: CompressionType, target: CompressionType | None
) -> None:
    sent = build_batch(records, compression=source)
    set_offset_and_epoch(sent, base_offset=Offset(0), leader_epoch=LeaderEpoch(-1))
    with kernels_of(module):
        assert stored(validate(sent, rules_with(compression=target))) == moved(records)


@pytest.mark.parametrize("module", BOTH)
@given(
    at=st.integers(0, 1 << 16),
    byte=st.integers(0, 255),
    cut=st.integers(0, 3),
    kind=st.sampled_from([*CompressionType]),
    magic=st.integers(0, 2),
)
def test_hostile_requests_never_crash(
    module: ModuleType, at: int, byte: int, cut: int, kind: CompressionType, magic: int
) -> None:
    """The requests have right checksums, and sizes that fit what is there."""
    codec = kind if magic == 2 else OLD_CODECS[kind % 4]
    if magic == 2:
        sent = build_batch(some_records(3), compression=codec)
        sent[HEADER_SIZE - 40 + at % (len(sent) - HEADER_SIZE + 40)] = byte
        sent = sent[: len(sent) - cut]
        sent[8:12] = (len(sent) - 12).to_bytes(4, "big")
        sent[17:21] = BatchView(memoryview(sent)).computed_crc().to_bytes(4, "big")
    else:
        with kernels_of(module):
            sent = bytearray(build_message_set(some_records(3)[:1], magic=magic, compression=codec))
            sent[16 + at % (len(sent) - 16)] = byte
    with kernels_of(module):
        result = unless_corrupt(lambda: validate(sent, rules_with(inflation_max=1, is_compacted=True)))
    assert result is None or result.record_count > 0
