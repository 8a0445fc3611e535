"""The codecs of record batches, bounded against decompression bombs.

| id | codec  | on the wire                                                                                           |
|----|--------|-------------------------------------------------------------------------------------------------------|
| 0  | none   | the bytes themselves                                                                                    |
| 1  | gzip   | RFC 1952, members may follow each other                                                                  |
| 2  | snappy | the Java library's framing: `82 "SNAPPY" 00`, two int32 versions, then (int32 size, raw block) with 32 kB of |
|    |        | data each. Also read: one raw block without framing, which old librdkafka sent.                         |
| 3  | lz4    | an LZ4 frame of independent 64 kB blocks, without content size and checksums. In messages of magic 0 the    |
|    |        | frame header's checksum is wrong: clients of that time computed it over the magic number too. They refuse  |
|    |        | the right one, so the broker writes the wrong checksum for them, and reads either.                       |
| 4  | zstd   | a zstd frame (KIP-110), magic 2 only                                                                      |

A codec's package is imported when the first batch in that codec comes, so a broker without such clients starts faster.
Everything here may run in a thread: each thread keeps its own state (`spare.py`), which is that of zstd's usual frames.

Source: `org.apache.kafka.common.compress`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from importlib import import_module
from typing import Any, Final

from pybroker.records import inflate
from pybroker.records.copies import joined
from pybroker.records.errors import InvalidRecordError
from pybroker.records.inflate import GZIP_WBITS, XERIAL_HEADER, lz4_header_checksum
from pybroker.records.spare import Spare

DECOMPRESSED_BYTES_MAX: Final = 128 << 20
"""The default bound. A batch of `max.message.bytes` (1 MB by default) would have to shrink 128 times to reach it."""

LZ4_DEFAULT_LEVEL: Final = 9  # Kafka's number for the fast compressor, which the library numbers 0
_LZ4_LEVEL_MIN: Final = 3
_LZ4_LEVEL_MAX: Final = 12

_XERIAL_BLOCK_BYTES: Final = 32 << 10
_INT32: Final = struct.Struct(">i")

_ZSTD_LEVEL: Final = 3
_ZSTD_SOURCE_BYTES: Final = 1 << 20


class CompressionType(IntEnum):
    """A codec's id, the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of_config(cls, name: str) -> CompressionType | None:
        """Return the codec of a topic's `compression.type`; None for "producer", which keeps the producer's codec."""
        if name == "producer":
            return None
        return cls.NONE if name in {"uncompressed", "none"} else cls[name.upper()]


def compress(codec: CompressionType, data: bytes | bytearray | memoryview, *, level: int | None = None, magic: int = 2) -> bytes:
    """Compress `data`. `level` is Kafka's `compression.<codec>.level`, None for its default; `magic` is the message's."""
    match codec:
        case CompressionType.GZIP:
            stream = _gzip_stream(level)
            return b"".join((stream.compress(data), stream.flush()))
        case CompressionType.SNAPPY:
            return _compress_snappy(data)
        case CompressionType.LZ4:
            return _compress_lz4(data, level, wrong_checksum=magic == 0)
        case CompressionType.ZSTD:
            return _compress_zstd(data, _ZSTD_LEVEL if level is None else level)
        case CompressionType.NONE:
            return bytes(data)


class Compressing:
    """`compress` piece by piece: what `add` and `end` return is the compressed data, in order."""

    __slots__ = ("_add", "_end", "_held")

    def __init__(self, codec: CompressionType, *, level: int | None = None, magic: int = 2) -> None:
        self._held = b""
        self._add: Callable[[bytes | memoryview], bytes] = bytes
        self._end: Callable[[], bytes] = bytes
        stream: Any
        match codec:
            case CompressionType.GZIP:
                stream = _gzip_stream(level)
            case CompressionType.ZSTD:
                stream = _zstd_compressor(_ZSTD_LEVEL if level is None else level).compressobj()  # lives in its compressor
            case CompressionType.LZ4:
                frame = import_module("lz4.frame")
                stream = frame.LZ4FrameCompressor(
                    compression_level=_lz4_level(level), block_size=frame.BLOCKSIZE_MAX64KB, block_linked=False
                )
                self._held = stream.begin() if magic else _with_wrong_checksum(stream.begin())
            case CompressionType.SNAPPY:
                self._held = XERIAL_HEADER
                self._add = _snappy_blocks
                return
            case CompressionType.NONE:
                return
        self._add, self._end = stream.compress, stream.flush

    def add(self, piece: bytes | memoryview) -> bytes:
        """Return the next part, which may be empty."""
        held, self._held = self._held, b""
        return held + self._add(piece)

    def end(self) -> bytes:
        """Return the last part."""
        return self._held + self._end()


def compressed_pieces(
    codec: CompressionType, pieces: Iterable[bytes | memoryview], *, level: int | None = None, magic: int = 2
) -> Iterator[bytes]:
    """Yield what `compress` returns for all pieces together, part by part."""
    compressing = Compressing(codec, level=level, magic=magic)
    for piece in pieces:
        yield compressing.add(piece)
    yield compressing.end()


def inflated(codec: CompressionType, data: bytes | memoryview, *, magic: int = 2) -> Iterator[bytes | memoryview]:
    """Yield the data that `compress` was given, in the pieces of `records.inflate`; `data` itself if there is no codec.

    Raises CorruptRecordError where the data is damaged.
    """
    match codec:
        case CompressionType.NONE:
            return inflate.plain_pieces(data)
        case CompressionType.GZIP:
            return inflate.gzip_pieces(data)
        case CompressionType.SNAPPY:
            return inflate.snappy_pieces(data)
        case CompressionType.LZ4:
            return inflate.lz4_pieces(data, any_checksum=magic == 0)
        case CompressionType.ZSTD:
            return inflate.zstd_pieces(data)


def decompress(
    codec: CompressionType, data: bytes | memoryview, *, bytes_max: int = DECOMPRESSED_BYTES_MAX, magic: int = 2
) -> bytes | memoryview:
    """Return the data that `compress` was given: owned bytes, or `data` itself if there is no codec. Holds at most about
    `bytes_max`.

    Raises:
        CorruptRecordError: the data is damaged.
        InvalidRecordError: it expands to more than `bytes_max`.
    """
    return joined(list(bounded_pieces(codec, data, bytes_max=bytes_max, magic=magic))) if codec else data


def bounded_pieces(
    codec: CompressionType, data: bytes | memoryview, *, bytes_max: int, magic: int = 2, step: Callable[[], None] | None = None
) -> Iterator[bytes | memoryview]:
    """Yield what `decompress` returns, in pieces that are not empty; `step` is called before each piece and may raise."""
    left = bytes_max
    for piece in inflated(codec, data, magic=magic):
        if step is not None:
            step()
        left -= len(piece)
        if left < 0:
            raise InvalidRecordError(f"the compressed records expand to more than {bytes_max} bytes")
        if piece:
            yield piece


def _gzip_stream(level: int | None) -> Any:
    return zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, GZIP_WBITS)


def _lz4_level(level: int | None) -> int:
    return 0 if level is None or level == LZ4_DEFAULT_LEVEL else min(max(level, _LZ4_LEVEL_MIN), _LZ4_LEVEL_MAX)


def _compress_snappy(data: bytes | bytearray | memoryview) -> bytes:
    return XERIAL_HEADER + _snappy_blocks(data)


def _snappy_blocks(data: bytes | bytearray | memoryview) -> bytes:
    snappy = import_module("snappy")
    parts: list[bytes] = []
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = snappy.compress(bytes(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += _INT32.pack(len(block)), block
    return b"".join(parts)


def _compress_lz4(data: bytes | bytearray | memoryview, level: int | None, *, wrong_checksum: bool) -> bytes:
    frame = import_module("lz4.frame")
    compressed: bytes = frame.compress(
        bytes(data),
        compression_level=_lz4_level(level),
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return _with_wrong_checksum(compressed) if wrong_checksum else compressed


def _with_wrong_checksum(frame: bytes) -> bytes:
    """Return an lz4 frame whose header has the checksum of clients from the time of magic 0."""
    return frame[:6] + bytes([lz4_header_checksum(frame[:6])]) + frame[7:]


def _compress_zstd(data: bytes | bytearray | memoryview, level: int) -> bytes:
    if level != _ZSTD_LEVEL:
        return bytes(_zstd_compressor(level).compress(data))
    compressor = _ZSTD_COMPRESSORS.take()
    try:
        return bytes(compressor.compress(data))
    finally:
        _ZSTD_COMPRESSORS.keep(compressor)


def _zstd_compressor(level: int = _ZSTD_LEVEL) -> Any:
    """Return a new compressor; one of another level than the default needs more memory, and is not kept.

    A compressor that does not know how much will come makes tables for the most: 700 MB at level 22. Such tables find what
    repeats over a longer distance than most batches have.
    """
    library = import_module("zstandard")
    if level == _ZSTD_LEVEL:
        return library.ZstdCompressor(level=level)
    parameters = library.ZstdCompressionParameters.from_level(level, source_size=_ZSTD_SOURCE_BYTES)
    return library.ZstdCompressor(compression_params=parameters)


_ZSTD_COMPRESSORS: Final = Spare(_zstd_compressor)
