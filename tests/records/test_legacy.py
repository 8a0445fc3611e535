"""Messages of magic 0 and 1 against golden bytes of the Java client 3.9, kafka-python and aiokafka."""

from __future__ import annotations

import itertools

import aiokafka.record.legacy_records as aio
import pytest
from aiokafka.record.memory_records import MemoryRecords as AioMemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from pybroker.model import Offset
from pybroker.records import legacy
from pybroker.records.batch import Record, TimestampType
from pybroker.records.build import build_message, build_message_set
from pybroker.records.compression import CompressionType, compress
from pybroker.records.errors import CorruptRecordError, InvalidRecordError
from pybroker.records.kernels import crc32
from testing.cases import in_case
from testing.scenes.record_lists import kafka_legacy, kafka_memory, record_lists, some_records, unless_corrupt, without_headers

RECORDS = [Record(Offset(7), 10, b"k", b"v"), Record(Offset(8), 12, None, b"w")]
CODECS = [CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4]

# What MemoryRecordsBuilder writes from RECORDS.
GOLDEN = {
    0: "0000000000000007000000101fecd70a0000000000016b000000017600000000000000080000000fa50b8f630000ffffffff0000000177",
    1: "000000000000000700000018ec24e92a0100000000000000000a000000016b0000000176"
    "000000000000000800000017d95a97360100000000000000000cffffffff0000000177",
}
GOLDEN_LZ4 = {
    0: "00000000000000080000004f036df3cd0003ffffffff0000004104224d1860401a32000000120001009107000000101fecd70a0f0071016b000000"
    "01760c00f0070000080000000fa50b8f630000ffffffff000000017700000000",
    1: "000000000000000800000058454e3eb00103000000000000000cffffffff0000004204224d1860408233000000160001006418ec24e92a011000"
    "600a000000016b050013761300001b005017d95a97360900010200a00cffffffff000000017700000000",
}


def expected(records: list[Record], magic: int) -> list[Record]:
    return [record._replace(headers=(), timestamp=record.timestamp if magic else -1) for record in records]


@pytest.mark.parametrize("magic", [0, 1])
def test_golden_messages(magic: int) -> None:
    assert build_message_set(RECORDS, magic=magic).hex() == GOLDEN[magic]
    assert list(legacy.records(bytes.fromhex(GOLDEN[magic]))) == expected(RECORDS, magic)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_golden_wrapper(magic: int) -> None:
    golden = bytes.fromhex(GOLDEN_LZ4[magic])
    assert list(legacy.records(golden)) == expected(RECORDS, magic)
    (ours,) = legacy.messages(build_message_set(RECORDS, magic=magic, compression=CompressionType.LZ4))
    (theirs,) = legacy.messages(golden)
    assert (ours.offset, ours.timestamp, ours.attributes) == (theirs.offset, theirs.timestamp, theirs.attributes)
    assert ours.inner_messages() == theirs.inner_messages()


@given(records=record_lists(has_gaps=True))
def test_others_read_what_we_build(records: list[Record]) -> None:
    for codec, magic in itertools.product(CODECS, (0, 1)):
        with in_case(f"{codec!r}, magic {magic}"):
            others_read_what_we_build(codec, magic, records)


def others_read_what_we_build(codec: CompressionType, magic: int, records: list[Record]) -> None:
    if codec and magic == 0:
        records = [record._replace(offset=Offset(index)) for index, record in enumerate(records)]
    built = build_message_set(records, magic=magic, compression=codec)
    assert list(legacy.records(built)) == expected(records, magic)
    if magic == 0 and codec is CompressionType.LZ4:
        return  # neither reads it
    for theirs in (kafka_memory.MemoryRecords(built), AioMemoryRecords(built)):
        found = []
        while (batch := theirs.next_batch()) is not None:
            assert batch.validate_crc()
            found += [Record(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value) for r in batch]
        assert found == expected(records, magic)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("library", [kafka_legacy, aio], ids=["kafka-python", "aiokafka"])
def test_we_read_what_others_build(codec: CompressionType, magic: int, library: object) -> None:
    if magic == 0 and codec is CompressionType.LZ4:
        pytest.skip("neither writes it; the golden wrapper is the Java client's")
    builder = library.LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)  # type: ignore[attr-defined]
    records = without_headers(some_records(30))
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value)
    # Theirs leave the wrapper's offset at 0, as producers do; the offsets inside are then the real ones.
    assert list(legacy.records(bytes(builder.build()))) == expected(records, magic)


def test_a_wrapper_with_log_append_time_gives_its_time_to_all_inside() -> None:
    built = build_message_set(
        RECORDS,
        magic=1,
        compression=CompressionType.GZIP,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time_ms=99,
    )
    assert [record.timestamp for record in legacy.records(built)] == [99, 99]
    inner = build_message_set(RECORDS, magic=1)
    mixed = build_message(
        Offset(8), timestamp=55, key=None, value=compress(CompressionType.GZIP, inner), magic=1, attributes=1 | 8
    )
    assert [record.timestamp for record in legacy.records(mixed)] == [55, 55]


def test_offsets_inside_count_back_from_the_wrapper() -> None:
    inner = build_message_set([record._replace(offset=Offset(i * 2)) for i, record in enumerate(RECORDS)], magic=1)
    wrapper = build_message(
        Offset(1002), timestamp=12, key=None, value=compress(CompressionType.GZIP, inner), magic=1, attributes=1
    )
    assert [record.offset for record in legacy.records(wrapper)] == [1000, 1002]
    wrapper = build_message(Offset(1), timestamp=12, key=None, value=compress(CompressionType.GZIP, inner), magic=1, attributes=1)
    with pytest.raises(InvalidRecordError, match="wrapper has the offset 1"):
        list(legacy.records(wrapper))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_partial_message_at_the_end_is_left_out(magic: int) -> None:
    built = bytes.fromhex(GOLDEN[magic])
    first = 12 + built[11]
    for end in range(len(built) + 1):
        assert len(list(legacy.records(built[:end]))) == (end >= first) + (end == len(built))


@pytest.mark.parametrize("magic", [0, 1])
def test_the_checksum_finds_every_change_of_a_byte(magic: int) -> None:
    built = bytes.fromhex(GOLDEN[magic])
    for at in [*range(12, 16), *range(17, 12 + built[11])]:
        damaged = bytearray(built)
        damaged[at] ^= 0x10
        with pytest.raises(CorruptRecordError):
            list(legacy.records(damaged))


@given(at=st.integers(0, 1 << 16), byte=st.integers(0, 255), magic=st.integers(0, 1), codec=st.sampled_from(CODECS))
def test_messages_that_are_none_never_crash(at: int, byte: int, magic: int, codec: CompressionType) -> None:
    """A hostile producer can send such messages, because their checksum is right."""
    damaged = bytearray(build_message_set(RECORDS[:1], magic=magic, compression=codec))
    damaged[8 + at % (len(damaged) - 8)] = byte
    damaged[12:16] = crc32(damaged[16:]).to_bytes(4, "big")
    found = unless_corrupt(lambda: list(legacy.records(damaged)))
    assert found is None or len(found) <= 1


@pytest.mark.parametrize(
    ("inner", "attributes"),
    [
        (b"", 1),
        (build_message_set(RECORDS, magic=1, compression=CompressionType.GZIP), 1),
        (build_message_set(RECORDS, magic=1), 4),
        (build_message_set(RECORDS, magic=1), 7),
    ],
    ids=["empty", "nested", "zstd", "unknown codec"],
)
def test_wrappers_that_cannot_be_are_refused(inner: bytes, attributes: int) -> None:
    codec = CompressionType.GZIP if attributes == 1 else CompressionType.NONE
    wrapper = build_message(Offset(5), timestamp=0, key=None, value=compress(codec, inner), magic=1, attributes=attributes)
    with pytest.raises(InvalidRecordError):
        list(legacy.records(wrapper))
    with pytest.raises(InvalidRecordError):
        list(legacy.records(build_message(Offset(5), timestamp=0, key=None, value=None, magic=1, attributes=attributes)))
