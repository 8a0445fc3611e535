"""A compressed batch of the usual form is looked through at once; anything else is left to the general way."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import random
import struct
from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType
from unittest import mock

import lz4.block
import pytest
import zstandard
from crc32c import crc32c
from lz4 import frame as lz4_frame

from pybroker.model import LeaderEpoch, Offset
from pybroker.protocol.error_codes import KafkaError
from pybroker.records import kernels, quick_look
from pybroker.records.batch import ATTRIBUTES_AT, CRC_AT, HEADER_SIZE, Record
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType, compress
from pybroker.records.inflate import LZ4_MAGIC, XERIAL_HEADER, lz4_header_checksum
from pybroker.records.quick_look import QUICK_BYTES_MAX, look_through
from pybroker.records.rules import ValidationRules
from pybroker.records.validate import validate_and_assign
from pybroker.records.work import PIECE_COST
from pybroker.sharing.work import SLICE_S
from testing.cases import in_case
from testing.scenes.record_lists import BOTH
from testing.wire.small_blocks import empty_gzip_blocks, few_letters, small_gzip_blocks, zstd_tables

BASE_MS = 1_000_000
CODECS = [codec for codec in CompressionType if codec]
ALL_CODECS = ValidationRules(max_message_bytes=1 << 20).kept_codecs


@pytest.fixture(autouse=True)
def _clock_that_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the machine takes for a look, no test gives up, except one that brings a clock of its own."""
    monkeypatch.setattr(quick_look, "perf_counter", lambda: 0.0)


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


@pytest.mark.parametrize("is_compressible", [True, False])
def test_lz4_frames_of_each_form_are_looked_through(is_compressible: bool) -> None:
    value = bytes(1000) if is_compressible else random.Random(1).randbytes(1000)
    plain = build_batch([Record(Offset(i), BASE_MS + i, None, value) for i in range(200)])[HEADER_SIZE:]
    expected = (*kernels.scan_records(plain, 200, BASE_MS), len(plain))
    for store_size, checksum, block_size in itertools.product(
        (False, True), (False, True), (lz4_frame.BLOCKSIZE_MAX64KB, lz4_frame.BLOCKSIZE_MAX4MB)
    ):
        with in_case(f"{store_size=} {checksum=} {block_size=}"):
            form = {"store_size": store_size, "content_checksum": checksum, "block_checksum": checksum, "block_size": block_size}
            frame = lz4_frame.compress(plain, block_linked=False, **form)
            assert looked(CompressionType.LZ4, memoryview(frame), 200, BASE_MS) == expected


def lz4_frame_of(blocks: bytes, *, content_bytes: int | None = None) -> memoryview:
    """Return a frame of these blocks, each of at most 64 kB; it declares what it holds only if `content_bytes` is given."""
    header = b"\x60\x40" if content_bytes is None else b"\x68\x40" + content_bytes.to_bytes(8, "little")
    return memoryview(LZ4_MAGIC + header + bytes([lz4_header_checksum(header)]) + blocks + bytes(4))


def lz4_plain_block(data: bytes) -> bytes:
    return (len(data) | 1 << 31).to_bytes(4, "little") + data


def lz4_block(data: bytes) -> bytes:
    block = lz4.block.compress(data, store_size=False)
    return len(block).to_bytes(4, "little") + block


def test_lz4_frames_that_lie_are_left() -> None:
    section = section_of()
    good = lz4_plain_block(section)
    found = looked(CompressionType.LZ4, lz4_frame_of(good), 3, BASE_MS)
    assert found is not None
    assert looked(CompressionType.LZ4, lz4_frame_of(good, content_bytes=len(section)), 3, BASE_MS) == found
    long = bytes(build_batch([Record(Offset(0), BASE_MS, None, bytes(1 << 16))])[HEADER_SIZE:])
    for name, frame, count in (
        ("declares too much", lz4_frame_of(good, content_bytes=len(section) + 1), 3),
        ("a block longer than the largest", lz4_frame_of(lz4_plain_block(long)), 1),
        ("a block that inflates to more than the largest", lz4_frame_of(lz4_block(long)), 1),
        ("a block longer than the frame", lz4_frame_of(good)[:-5], 3),
        ("another block behind the end", memoryview(bytes(lz4_frame_of(good)) + good), 3),
        ("a wrong checksum of the header", memoryview(bytes(lz4_frame_of(good)).replace(b"\x60\x40", b"\x60\x50", 1)), 3),
    ):
        with in_case(name):
            assert looked(CompressionType.LZ4, frame, count, BASE_MS) is None


def test_very_many_empty_lz4_blocks_are_left_after_some() -> None:
    empty = (1).to_bytes(4, "little") + b"\0"
    decompress, damage = quick_look._lz4_block()
    taken = mock.Mock(side_effect=decompress)
    with mock.patch.object(quick_look, "_lz4_block", return_value=(taken, damage)):
        assert looked(CompressionType.LZ4, lz4_frame_of(empty * 10_000), 1, BASE_MS) is None
    assert 1 < taken.call_count <= QUICK_BYTES_MAX // PIECE_COST + 1


def test_very_many_empty_snappy_blocks_are_left_after_some() -> None:
    empty = (1).to_bytes(4) + b"\0"
    decompress, damage = quick_look._snappy()
    taken = mock.Mock(side_effect=decompress)
    with mock.patch.object(quick_look, "_snappy", return_value=(taken, damage)):
        assert looked(CompressionType.SNAPPY, memoryview(XERIAL_HEADER + empty * 10_000), 1, BASE_MS) is None
    assert taken.call_count <= QUICK_BYTES_MAX // PIECE_COST + 1


@pytest.mark.parametrize("has_library", [True, False])
def test_gzip_members_of_each_form_are_looked_through(has_library: bool) -> None:
    """The same is found where libdeflate is not installed."""
    plain = bytes(batch_of(CompressionType.NONE)[HEADER_SIZE:])
    expected = (*kernels.scan_records(plain, 200, BASE_MS), len(plain))
    named = io.BytesIO()
    with gzip.GzipFile("name", "wb", fileobj=named) as file:
        file.write(plain)
    noise = bytes(build_batch([Record(Offset(0), BASE_MS, None, random.Random(3).randbytes(200_000))])[HEADER_SIZE:])
    with nullcontext() if has_library else mock.patch.object(quick_look, "whole_inflate_module", return_value=None):
        for name, data in {
            "usual": gzip.compress(plain),
            "with a name": named.getvalue(),
            "of small blocks": small_gzip_blocks(plain, each=2_000),
        }.items():
            with in_case(name):
                assert looked(CompressionType.GZIP, memoryview(data), 200, BASE_MS) == expected
        found = looked(CompressionType.GZIP, memoryview(gzip.compress(noise)), 1, BASE_MS)
        assert found == (*kernels.scan_records(noise, 1, BASE_MS), len(noise)), "longer than libdeflate gets at once"


def test_gzip_with_anything_behind_the_first_member_is_left() -> None:
    """Even if it ends with the trailer of the first one, in which libdeflate alone would see nothing wrong."""
    section = section_of()
    good = gzip.compress(section)
    assert looked(CompressionType.GZIP, memoryview(good), 3, BASE_MS) is not None
    for name, data in {
        "the same again": good * 2, "noise and the trailer": good + b"noise" + good[-8:], "the trailer again": good + good[-8:],
        "an empty member": good + gzip.compress(b""), "a wrong size": good[:-4] + (len(section) + 1).to_bytes(4, "little"),
        "a small size": good[:-4] + (1).to_bytes(4, "little"), "no size": good[:-4] + bytes(4),
    }.items():  # fmt: skip
        with in_case(name):
            assert looked(CompressionType.GZIP, memoryview(data), 3, BASE_MS) is None


@pytest.mark.parametrize("module", BOTH)
def test_whether_the_end_of_data_stands_nowhere_else(module: ModuleType) -> None:
    draw = random.Random(4)
    for data in (draw.randbytes(draw.randrange(40)).translate(bytes(byte % 3 for byte in range(256))) for _ in range(300)):
        for size in (1, 2, 4, 8):
            expected = len(data) > size and data[-size:] not in data[:-1]
            assert module.is_only_at_end(memoryview(data), size) is expected, (data, size)


def test_many_small_gzip_blocks_are_left_when_they_take_long() -> None:
    records = bytes(build_batch([Record(Offset(0), BASE_MS, None, few_letters(400_000))])[HEADER_SIZE:])
    for name, data in (("empty", empty_gzip_blocks(500_000, section_of())), ("small", small_gzip_blocks(records))):
        clock = mock.Mock(side_effect=itertools.count(step=SLICE_S / 4))
        with in_case(name), mock.patch.object(quick_look, "perf_counter", clock):
            assert looked(CompressionType.GZIP, memoryview(data), 1, BASE_MS) is None
        assert clock.call_count == 6, "the beginning, and five pieces of 16 kB"


def test_many_small_zstd_blocks_are_left_at_once() -> None:
    frame = memoryview(zstd_tables(200_000))
    assert len(zstandard.ZstdDecompressor().decompress(frame, 1 << 20)) > 16, "it is whole"
    decompressors = mock.Mock()
    with mock.patch.object(quick_look, "ZSTD_DECOMPRESSORS", decompressors):
        assert looked(CompressionType.ZSTD, frame, 1, BASE_MS) is None
        decompressors.take.return_value.decompress.assert_not_called()
        decompressors.take.return_value.decompress.return_value = b""
        looked(CompressionType.ZSTD, memoryview(zstd_tables(4_000)), 1, BASE_MS)
        decompressors.take.return_value.decompress.assert_called_once()


def test_a_large_zstd_frame_of_few_blocks_is_looked_through() -> None:
    noise = random.Random(5).randbytes(QUICK_BYTES_MAX - 100)
    plain = bytes(build_batch([Record(Offset(0), BASE_MS, None, noise)])[HEADER_SIZE:])
    for frame in (zstandard.compress(plain), zstandard.ZstdCompressor(write_content_size=False).compress(plain)):
        expected = (*kernels.scan_records(plain, 1, BASE_MS), len(plain))
        assert looked(CompressionType.ZSTD, memoryview(frame), 1, BASE_MS) == expected


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


def outcome_of_the_general_way(sent: bytes) -> bytes | None:
    """Return the batch as it would be written; None if it is refused."""
    with contextlib.suppress(KafkaError):
        return bytes(
            validate_and_assign(
                memoryview(bytearray(sent)),
                first_offset=Offset(7),
                now_ms=BASE_MS,
                leader_epoch=LeaderEpoch(1),
                rules=ValidationRules(max_message_bytes=1 << 20, timestamp_before_max_ms=1 << 40, timestamp_after_max_ms=1 << 40),
                produce_version=9,
            ).data
        )
    return None


@pytest.mark.parametrize("module", BOTH)
@pytest.mark.parametrize("codec", CODECS)
def test_damage_behind_a_good_checksum_is_accepted_only_as_the_general_way_does(
    module: ModuleType, codec: CompressionType
) -> None:
    records = [Record(Offset(i), BASE_MS + i, b"key" * i, b"value" * i, (("header", b"h" * i),)) for i in range(6)]
    good = bytes(build_batch(records, compression=codec))
    drawn, taken = random.Random(codec), 0
    for at in [None, *range(len(good))]:
        for _ in range(3):
            sent = bytearray(good)
            if at is not None:
                sent[at] ^= drawn.randrange(1, 256)
            if at is None or at >= ATTRIBUTES_AT:
                struct.pack_into(">I", sent, CRC_AT, crc32c(memoryview(sent)[ATTRIBUTES_AT:]))
            copy = bytearray(sent)
            if module.accept_batch(copy, 7, 1, BASE_MS, 1 << 20, 1 << 40, 1 << 40, False, ALL_CODECS, look_through) is None:
                assert copy == sent, f"byte {at} of a batch that is left"
            else:
                taken += 1
                assert outcome_of_the_general_way(bytes(sent)) == bytes(copy), f"byte {at}"
    assert taken > 3, "some damage is none, such as another producer id"
