"""The codecs against the libraries' own, kafka-python's and a bomb."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from contextlib import suppress
from itertools import zip_longest

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pybroker.records.compression import Compressing, CompressionType, _zstd_compressor, compress, decompress, inflated
from pybroker.records.errors import CorruptRecordError, InvalidRecordError
from pybroker.records.inflate import GZIP_FED_BYTES, gzip_pieces, zstd_pieces
from pybroker.records.rules import ValidationRules
from pybroker.records.work import TABLES_BYTES_MAX, LongWorkError, Work, pieces_of
from testing.cases import in_case
from testing.scenes.record_lists import kafka_codec, unless_corrupt
from testing.wire.small_blocks import empty_gzip_blocks, zstd_tables

CODECS = [codec for codec in CompressionType if codec]
DATA = b"".join(b"record %d " % i for i in range(20_000))


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("magic", [0, 1, 2])
@given(data=st.binary(max_size=2000))
def test_what_is_compressed_comes_back(codec: CompressionType, magic: int, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data, magic=magic), magic=magic)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_large_data_and_levels(codec: CompressionType) -> None:
    for level in (None, 1, 5, 9):
        assert decompress(codec, memoryview(compress(codec, DATA, level=level))) == DATA


def test_the_libraries_read_ours() -> None:
    assert gzip.decompress(compress(CompressionType.GZIP, DATA)) == DATA
    assert lz4.frame.decompress(compress(CompressionType.LZ4, DATA)) == DATA
    assert zstandard.decompress(compress(CompressionType.ZSTD, DATA)) == DATA
    assert kafka_codec.snappy_decode(compress(CompressionType.SNAPPY, DATA)) == DATA


def test_we_read_the_libraries() -> None:
    assert decompress(CompressionType.GZIP, gzip.compress(DATA) + gzip.compress(b"more")) == DATA + b"more"
    assert decompress(CompressionType.LZ4, lz4.frame.compress(DATA, block_linked=False, content_checksum=True)) == DATA
    assert decompress(CompressionType.ZSTD, zstandard.compress(DATA)) == DATA
    stream = zstandard.ZstdCompressor().compressobj()  # without the size in its header, as the Java client writes
    assert decompress(CompressionType.ZSTD, stream.compress(DATA) + stream.flush()) == DATA
    assert decompress(CompressionType.SNAPPY, kafka_codec.snappy_encode(DATA)) == DATA


def test_a_zstd_frame_with_a_large_window_is_read_and_so_is_the_next_one() -> None:
    """Frames with a small window share a decompressor, which keeps its memory; large windows and damage get another."""
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=24)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    large = stream.compress(DATA) + stream.flush()
    assert zstandard.get_frame_parameters(large).window_size == 1 << 24
    small = compress(CompressionType.ZSTD, DATA)
    for data, times in ((small, 1), (large, 1), (small + large, 2), (small, 1)):
        assert decompress(CompressionType.ZSTD, data) == DATA * times
    with pytest.raises(CorruptRecordError):
        decompress(CompressionType.ZSTD, small[:20] + b"damage" + small[26:])
    assert decompress(CompressionType.ZSTD, small) == DATA


def test_snappy_without_framing_is_read_too() -> None:
    assert decompress(CompressionType.SNAPPY, snappy.compress(DATA)) == DATA


def test_snappy_is_framed_as_the_java_library_does() -> None:
    framed = compress(CompressionType.SNAPPY, bytes(40_000))
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    (size,) = struct.unpack_from(">i", framed, 16)
    assert len(snappy.uncompress(framed[20 : 20 + size])) == 32 << 10


def test_lz4_of_magic_0_has_the_wrong_header_checksum_and_either_is_read() -> None:
    wrong, right = compress(CompressionType.LZ4, DATA, magic=0), compress(CompressionType.LZ4, DATA, magic=1)
    assert wrong[:6] + wrong[7:] == right[:6] + right[7:]
    assert wrong[4:6] == b"\x60\x40"  # independent blocks of 64 kB, nothing else
    assert (wrong[6], right[6]) == (0x1A, 0x82)  # XXH32(magic + flags) and XXH32(flags), second bytes
    for compressed in (wrong, right):
        assert decompress(CompressionType.LZ4, compressed, magic=0) == DATA
    with pytest.raises(CorruptRecordError):
        decompress(CompressionType.LZ4, wrong, magic=1)


def test_lz4_blocks_that_the_java_client_cannot_read_are_refused() -> None:
    with pytest.raises(CorruptRecordError, match="depend"):
        decompress(CompressionType.LZ4, lz4.frame.compress(DATA, block_linked=True))


@pytest.mark.parametrize("codec", CODECS)
def test_streams_of_one_thread_that_are_under_way_at_once_have_nothing_in_common(codec: CompressionType) -> None:
    """A search by time pauses between two pieces of a batch, and others inflate meanwhile."""
    texts = [DATA * 4, DATA[::-1] * 4]
    streams = [inflated(codec, compress(codec, text)) for text in texts]
    pieces = [b"".join(parts) for parts in zip(*zip_longest(*streams, fillvalue=b""), strict=True)]
    assert pieces == texts
    abandoned = inflated(codec, compress(codec, texts[0]))
    next(abandoned)
    assert decompress(codec, compress(codec, texts[1])) == texts[1]
    abandoned.close()  # type: ignore[attr-defined]  # they are generators
    assert decompress(codec, compress(codec, texts[1])) == texts[1]


def test_no_step_inflates_many_small_blocks() -> None:
    """The caller gives others their turn between two steps, so each ends when some of the data was looked at."""
    steps = {"gzip": gzip_pieces(empty_gzip_blocks(500_000, b"x")), "zstd": zstd_pieces(zstd_tables(500_000))}
    for name, pieces in steps.items():
        with in_case(name):
            assert sum(1 for _ in pieces) >= 500_000 // GZIP_FED_BYTES
    assert b"".join(zstd_pieces(zstd_tables(50_000))) == zstandard.ZstdDecompressor().decompress(zstd_tables(50_000), 1 << 20)


@pytest.mark.parametrize(
    "data", [empty_gzip_blocks(TABLES_BYTES_MAX, b""), zstd_tables(TABLES_BYTES_MAX + 100)], ids=["gzip", "zstd"]
)
def test_the_loop_begins_no_long_data_whose_blocks_may_be_small(data: bytes) -> None:
    codec = CompressionType.GZIP if data[0] == 0x1F else CompressionType.ZSTD
    rules = ValidationRules(max_message_bytes=1 << 20)
    with pytest.raises(LongWorkError):
        next(pieces_of(codec, memoryview(data), rules, Work(is_on_loop=True)))
    with suppress(CorruptRecordError):  # it is cut
        list(pieces_of(codec, memoryview(data[:TABLES_BYTES_MAX]), rules, Work(is_on_loop=True)))
    thread = Work()
    assert sum(map(len, pieces_of(codec, memoryview(data), rules, thread))) == thread.inflated_bytes


@pytest.mark.parametrize("codec", CODECS)
def test_compressing_in_pieces_and_at_once_have_nothing_in_common(codec: CompressionType) -> None:
    streams, results = [Compressing(codec), Compressing(codec)], [bytearray(), bytearray()]
    for at in range(0, len(DATA), 10_000):
        for stream, result in zip(streams, results, strict=True):
            result += stream.add(DATA[at : at + 10_000])
        assert decompress(codec, compress(codec, DATA)) == DATA
    for stream, result in zip(streams, results, strict=True):
        result += stream.end()
        assert decompress(codec, bytes(result)) == DATA


@pytest.mark.parametrize("codec", CODECS)
def test_every_truncation_is_noticed_or_short(codec: CompressionType) -> None:
    data = DATA[:500]
    compressed = compress(codec, data)
    for end in range(len(compressed)):
        try:
            assert len(decompress(codec, compressed[:end])) < len(data)
        except CorruptRecordError:
            continue


@pytest.mark.parametrize("codec", CODECS)
@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_damage_never_crashes(codec: CompressionType, at: int, byte: int) -> None:
    compressed = bytearray(compress(codec, DATA[:1000]))
    compressed[at % len(compressed)] = byte
    found = unless_corrupt(lambda: decompress(codec, bytes(compressed), bytes_max=1 << 20))
    assert found is None or len(found) <= 1 << 20


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_takes_no_more_memory_than_allowed(codec: CompressionType) -> None:
    bomb = compress(codec, bytes(64 << 20))
    limit = 1 << 20
    decompress(codec, compress(codec, b"x"))  # imports the codec
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRecordError, match="expand"):
            decompress(codec, bomb, bytes_max=limit)
        assert tracemalloc.get_traced_memory()[1] < 4 * limit
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_exact(codec: CompressionType) -> None:
    compressed = compress(codec, DATA)
    assert decompress(codec, compressed, bytes_max=len(DATA)) == DATA
    with pytest.raises(InvalidRecordError):
        decompress(codec, compressed, bytes_max=len(DATA) - 1)


def test_codecs_of_the_configuration() -> None:
    assert CompressionType.of_config("producer") is None
    assert CompressionType.of_config("uncompressed") is CompressionType.NONE
    assert CompressionType.of_config("zstd") is CompressionType.ZSTD


def test_zstd_at_its_highest_level_makes_no_huge_tables() -> None:
    compressor = _zstd_compressor(22)
    stream = compressor.compressobj()
    made = stream.compress(DATA) + stream.flush()
    assert compressor.memory_size() < 100 << 20, "for data of unknown length the library would take 700 MB"
    assert decompress(CompressionType.ZSTD, made) == DATA
    assert len(made) < len(zstandard.ZstdCompressor(level=22).compress(DATA)) * 1.01
