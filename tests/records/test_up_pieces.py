"""Up-conversion piece by piece: the same batch and the same refusals as of the whole, in bounded memory."""

from __future__ import annotations

import contextlib
import gzip
import tracemalloc
from collections.abc import Iterator
from types import ModuleType
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.model import Offset
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records import compression, inflate, up_pieces, validate
from pybroker.records.batch import Record, TimestampType
from pybroker.records.build import build_message, build_message_set
from pybroker.records.compression import CompressionType, compress
from pybroker.records.errors import RecordTooLargeError, RecordValidationError
from pybroker.records.rules import ValidationRules
from pybroker.records.validate import check
from pybroker.records.work import Work
from testing.scenes.record_lists import BASE_MS, BOTH, kernels_of, record_lists, some_records

CODECS = list(CompressionType)[:4]
NOW_MS = BASE_MS + 1000
MIB = 1 << 20


@contextlib.contextmanager
def windows_of(window_bytes: int, piece_bytes: int) -> Iterator[None]:
    """Make messages large that are not: a window has this much, and they come in pieces of this size."""
    with (
        mock.patch.object(validate, "LOOP_BYTES", 0),
        mock.patch.object(up_pieces, "WINDOW_BYTES", window_bytes),
        mock.patch.object(inflate, "PIECE_BYTES", piece_bytes),
    ):
        yield


def shown(sent: bytes, rules: ValidationRules) -> object:
    """Return all of the batch, or of its refusal."""
    try:
        batch = check(memoryview(sent), rules, now_ms=NOW_MS, produce_version=2).batch
    except RecordValidationError as error:
        return error.code, error.record_errors, str(error)
    except KafkaError as error:
        return error.code, type(error)
    if batch is None:
        return None
    batch.ensure_valid()
    header = (batch.attributes, batch.last_offset_delta, batch.base_timestamp, batch.max_timestamp, batch.record_count)
    return header, bytes(batch.record_section())


def wrapped(inner: bytes, codec: CompressionType, magic: int, *, append_time: int | None = None) -> bytes:
    return build_message(
        Offset(0),
        timestamp=append_time or 0,
        key=None,
        value=compress(codec, inner, magic=magic),
        magic=magic,
        attributes=codec | (0 if append_time is None else 8),
    )


@pytest.mark.parametrize("module", BOTH)
@given(
    records=record_lists(),
    codec=st.sampled_from(CODECS),
    magic=st.integers(0, 1),
    append_time=st.none() | st.integers(0, 1 << 50),
    damage=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=2),
    cut=st.integers(0, 60) | st.just(0),
    sizes=st.tuples(st.integers(31, 400), st.integers(1, 400)),
    rules=st.builds(
        ValidationRules,
        max_message_bytes=st.just(MIB),
        compression=st.none() | st.sampled_from(CompressionType),
        is_compacted=st.booleans(),
        is_log_append_time=st.booleans(),
        timestamp_after_max_ms=st.integers(0, 1 << 61),
    ),
)
def test_pieces_become_what_the_whole_becomes(
    module: ModuleType,
    records: list[Record],
    codec: CompressionType,
    magic: int,
    append_time: int | None,
    damage: list[tuple[int, int]],
    cut: int,
    sizes: tuple[int, int],
    rules: ValidationRules,
) -> None:
    inner = bytearray(build_message_set([record._replace(offset=Offset(0)) for record in records], magic=magic))
    for at, byte in damage:
        inner[at % len(inner)] = byte
    del inner[len(inner) - cut % len(inner) :]
    with mock.patch.object(compression, "_XERIAL_BLOCK_BYTES", sizes[1]):
        sent = wrapped(bytes(inner), codec, magic, append_time=append_time if magic else None) if codec else bytes(inner)
    with kernels_of(module):
        whole = shown(sent, rules)
        with windows_of(*sizes):
            assert shown(sent, rules) == whole


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("is_append_time", [False, True])
@pytest.mark.parametrize(
    "large", [Record(Offset(3), 8, bytes(3000), None), Record(Offset(3), 8, None, bytes(3000)), Record(Offset(3), 8, b"k", b"")]
)
def test_a_message_larger_than_the_window(module: ModuleType, magic: int, large: Record, *, is_append_time: bool) -> None:
    records = [*some_records(3), large, *some_records(2, base_offset=4), large._replace(offset=Offset(6))]
    sent = build_message_set(
        records,
        magic=magic,
        compression=CompressionType.GZIP,
        timestamp_type=TimestampType(is_append_time),
        log_append_time_ms=NOW_MS,
    )
    rules = ValidationRules(max_message_bytes=MIB)
    with kernels_of(module):
        whole = shown(sent, rules)
        with windows_of(100, 64):
            assert shown(sent, rules) == whole
    assert isinstance(whole, tuple)
    assert len(whole[1]) > 3000 or large.value == b""


@pytest.mark.parametrize("change", [12, 16, 17, 33, 3033])
def test_a_damaged_message_larger_than_the_window(change: int) -> None:
    inner = bytearray(build_message_set([Record(Offset(0), 8, None, bytes(3000))] * 2, magic=1))
    inner[change] ^= 3
    if change not in {12, 16}:
        inner[12:16] = inflate.inflate_module().crc32(bytes(inner[16 : len(inner) // 2])).to_bytes(4, "big")
    sent, rules = wrapped(bytes(inner), CompressionType.LZ4, 1), ValidationRules(max_message_bytes=MIB)
    whole = shown(sent, rules)
    with windows_of(100, 64):
        assert shown(sent, rules) == whole
    assert isinstance(whole, tuple)
    assert change == 3033 or isinstance(whole[0], ErrorCode)


@pytest.mark.parametrize("target", [None, *CompressionType])
def test_very_many_empty_messages_are_refused_in_a_few_megabytes(target: CompressionType | None) -> None:
    one = build_message(Offset(0), timestamp=BASE_MS, key=None, value=b"", magic=1)
    sent = build_message(Offset(0), timestamp=0, key=None, value=gzip.compress(one * 3_000_000, 1), magic=1, attributes=1)
    rules = ValidationRules(max_message_bytes=MIB, compression=target)
    tracemalloc.start()
    try:
        with pytest.raises(RecordTooLargeError):
            check(memoryview(sent), rules, now_ms=NOW_MS)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 12 * MIB


@pytest.mark.parametrize("is_one", [True, False], ids=["one message", "many"])
@pytest.mark.parametrize("codec", CODECS[1:])
def test_messages_that_are_large_inside_take_a_few_megabytes(codec: CompressionType, *, is_one: bool) -> None:
    records = [Record(Offset(0), 5, None, bytes(60 * MIB))] if is_one else some_records(60_000, value_size=1000)
    sent = build_message_set(records, magic=1, compression=codec)
    tracemalloc.start()
    try:
        batch = check(memoryview(sent), ValidationRules(max_message_bytes=8 * MIB), now_ms=NOW_MS).batch
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert batch is not None
    assert batch.record_count == len(records)
    assert peak_bytes < 12 * MIB + 4 * batch.batch_length


def test_cancelled_work_ends_at_the_next_piece() -> None:
    sent = build_message_set(some_records(20_000, value_size=1000), magic=1, compression=CompressionType.LZ4)
    work = Work(is_cancelled=lambda: work.inflated_bytes > 4 * MIB)
    with pytest.raises(KafkaError) as caught:
        check(memoryview(sent), ValidationRules(max_message_bytes=8 * MIB), now_ms=NOW_MS, work=work)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert work.inflated_bytes < 5 * MIB
