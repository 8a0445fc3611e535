"""A compressed batch of the usual form is looked through at once; anything else is left to the general way."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from types import ModuleType

import pytest
import zstandard
from lz4 import frame as lz4_frame

from pybroker.model import Offset
from pybroker.records import kernels
from pybroker.records.batch import HEADER_SIZE, Record
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType, compress
from pybroker.records.quick_look import QUICK_BYTES_MAX, look_through
from pybroker.records.rules import ValidationRules
from testing.cases import in_case
from testing.scenes.record_lists import BOTH

BASE_MS = 1_000_000
CODECS = [codec for codec in CompressionType if codec]
ALL_CODECS = ValidationRules(max_message_bytes=1 << 20).kept_codecs


def batch_of(codec: CompressionType, value_bytes: int = 1000, count: int = 200) -> bytearray:
    return build_batch([Record(Offset(i), BASE_MS + i, None, bytes([i]) * value_bytes) for i in range(count)], compression=codec)


def looked(codec: CompressionType, data: memoryview, record_count: int, base_timestamp: int) -> object:
    return look_through(codec, data, record_count=record_count, base_timestamp=base_timestamp)


def section_of(count: int = 3) -> bytes:
    return bytes(batch_of(CompressionType.NONE, 10, count)[HEADER_SIZE:])


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_found_is_what_a_scan_of_the_records_finds(codec: CompressionType) -> None:
    plain = batch_of(CompressionType.NONE)[HEADER_SIZE:]
    data = memoryview(batch_of(codec))[HEADER_SIZE:]
    for _ in range(2):  # what a thread keeps is used again
        assert looked(codec, data, 200, BASE_MS) == (*kernels.scan_records(plain, 200, BASE_MS), len(plain))


@pytest.mark.parametrize("codec", CODECS)
def test_more_than_the_quick_share_and_damage_are_left(codec: CompressionType) -> None:
    long = memoryview(compress(codec, bytes(QUICK_BYTES_MAX + 1)))
    assert looked(codec, long, 1, 0) is None
    good = compress(codec, section_of())
    at = 25 if codec is CompressionType.SNAPPY else len(good) - 3  # snappy has no checksum: the first literal's length
    damaged = good[:at] + bytes([good[at] ^ 0xF0]) + good[at + 1 :]
    for name, data in {"cut": good[:-1], "short": good[:5], "empty": b"", "more": good + b"x", "damaged": damaged}.items():
        with in_case(name):
            assert looked(codec, memoryview(data), 3, BASE_MS) is None
    for count in (2, 4):
        assert looked(codec, memoryview(good), count, BASE_MS) is None
    assert looked(codec, memoryview(good), 3, BASE_MS) is not None, "it works after damage"


def test_lz4_blocks_that_depend_on_each_other_are_left() -> None:
    records = bytes(batch_of(CompressionType.NONE)[HEADER_SIZE:])
    alone, linked = (memoryview(lz4_frame.compress(records, block_linked=linked)) for linked in (False, True))
    assert looked(CompressionType.LZ4, alone, 200, BASE_MS) is not None
    assert looked(CompressionType.LZ4, linked, 200, BASE_MS) is None


def zstd_huge() -> bytes:
    """Return a frame that declares 2^40 bytes."""
    return b"\x28\xb5\x2f\xfd" + bytes([0xC0, 0x58]) + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00"


@pytest.mark.parametrize(
    ("codec", "make"),
    [
        (CompressionType.GZIP, lambda: gzip.compress(section_of()[:9]) + gzip.compress(section_of()[9:])),
        (CompressionType.SNAPPY, lambda: compress(CompressionType.SNAPPY, section_of())[20:]),
        (CompressionType.LZ4, lambda: compress(CompressionType.LZ4, section_of()) * 2),
        (CompressionType.LZ4, lambda: compress(CompressionType.LZ4, section_of(), magic=0)),
        (CompressionType.ZSTD, lambda: zstandard.compress(section_of()[:9]) + zstandard.compress(section_of()[9:])),
        (CompressionType.ZSTD, zstd_huge),
    ],
)
def test_seldom_forms_are_left(codec: CompressionType, make: Callable[[], bytes]) -> None:
    assert looked(codec, memoryview(make()), 3, BASE_MS) is None


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("codec", CODECS)
def test_a_compressed_batch_is_accepted_where_its_codec_is_kept(module: ModuleType, codec: CompressionType) -> None:
    def accept(kept: int, limits: tuple[int, int] = (1 << 60, 1 << 60), *, compacted: bool = False) -> object:
        data = batch_of(codec, 10, 3)
        return module.accept_batch(data, 7, 1, BASE_MS, 1 << 20, *limits, compacted, kept, look_through)

    accepted = (2, BASE_MS + 2, -1, -1, -1, len(section_of()))
    assert accept(ALL_CODECS) == accept(1 << codec) == accepted
    assert accept(ALL_CODECS & ~(1 << codec)) is None
    assert accept(ALL_CODECS, compacted=True) is None, "no record has a key"
    assert accept(ALL_CODECS, (0, 1)) is None, "the last record is too late"
    assert module.accept_batch(batch_of(codec), 7, 1, BASE_MS, 1 << 20, 1 << 60, 1 << 60, False, ALL_CODECS) is None


def test_the_codecs_that_a_topic_keeps() -> None:
    def kept(compression: CompressionType | None, *, is_log_append_time: bool = False) -> set[int]:
        rules = ValidationRules(max_message_bytes=1, compression=compression, is_log_append_time=is_log_append_time)
        return {codec for codec in range(8) if rules.kept_codecs >> codec & 1}

    assert kept(None) == {0, 1, 2, 3, 4}
    assert [kept(codec) for codec in CompressionType] == [{codec} for codec in CompressionType]
    assert kept(None, is_log_append_time=True) == set()
