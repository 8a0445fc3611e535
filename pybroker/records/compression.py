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
Everything here may run in a thread: each thread keeps its own state, which is that of zstd's usual frames.

Source: `org.apache.kafka.common.compress`.
"""

from __future__ import annotations

import struct
import threading
import zlib
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Any, Final

from pybroker.records.errors import CorruptRecordError, InvalidRecordError

DECOMPRESSED_BYTES_MAX: Final = 128 << 20
"""The default bound. A batch of `max.message.bytes` (1 MB by default) would have to shrink 128 times to reach it."""

LZ4_DEFAULT_LEVEL: Final = 9  # Kafka's number for the fast compressor, which the library numbers 0
_GZIP_WBITS: Final = 31
_LZ4_LEVEL_MIN: Final = 3
_LZ4_LEVEL_MAX: Final = 12
_PIECE_BYTES: Final = 1 << 18

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 << 10
_INT32: Final = struct.Struct(">i")

_ZSTD_LEVEL: Final = 3
_ZSTD_WINDOW_BYTES: Final = 1 << 21  # of the default level
_OF_THREAD: Final = threading.local()

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_BLOCKS_INDEPENDENT: Final = 0x20
_LZ4_CONTENT_SIZE: Final = 0x08


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
            stream = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
            return stream.compress(data) + stream.flush()
        case CompressionType.SNAPPY:
            return _compress_snappy(data)
        case CompressionType.LZ4:
            return _compress_lz4(data, level, wrong_checksum=magic == 0)
        case CompressionType.ZSTD:
            return bytes(_zstd_compressor(_ZSTD_LEVEL if level is None else level).compress(data))
        case CompressionType.NONE:
            return bytes(data)


def decompress(
    codec: CompressionType, data: bytes | memoryview, *, bytes_max: int = DECOMPRESSED_BYTES_MAX, magic: int = 2
) -> bytes | memoryview:
    """Return the data that `compress` was given: owned bytes, or `data` itself if there is no codec. Holds at most about
    `bytes_max`.

    Raises:
        CorruptRecordError: the data is damaged.
        InvalidRecordError: it expands to more than `bytes_max`.
    """
    if not codec:
        return data
    match codec:
        case CompressionType.GZIP:
            return _decompress_gzip(data, bytes_max)
        case CompressionType.SNAPPY:
            return _decompress_snappy(data, bytes_max)
        case CompressionType.LZ4:
            return _decompress_lz4(data, bytes_max, any_checksum=magic == 0)
        case _:
            return _decompress_zstd(data, bytes_max)


def _too_large(bytes_max: int) -> InvalidRecordError:
    return InvalidRecordError(f"the compressed records expand to more than {bytes_max} bytes")


@cache  # an import that fails takes longer than decompressing a batch
def _inflate_module() -> Any:  # zlib, or its faster twin in isal
    try:
        return import_module("isal.isal_zlib")
    except ImportError:
        return zlib


def _decompress_gzip(data: bytes | memoryview, bytes_max: int) -> bytes:
    inflate = _inflate_module()
    members: list[bytes] = []
    rest: bytes | memoryview = data
    while rest or not members:
        stream = inflate.decompressobj(_GZIP_WBITS)
        try:
            member: bytes = stream.decompress(rest, bytes_max + 1)
        except inflate.error as error:
            raise CorruptRecordError(f"damaged gzip data: {error}") from error
        bytes_max -= len(member)
        if bytes_max < 0:
            raise _too_large(bytes_max + len(member))
        if not stream.eof:
            raise CorruptRecordError("truncated gzip data")
        members.append(member)
        rest = stream.unused_data
    return members[0] if len(members) == 1 else b"".join(members)


def _compress_snappy(data: bytes | bytearray | memoryview) -> bytes:
    snappy = import_module("snappy")
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = snappy.compress(bytes(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += _INT32.pack(len(block)), block
    return b"".join(parts)


def _decompress_snappy(data: bytes | memoryview, bytes_max: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, bytes_max)
    position, blocks = len(_XERIAL_HEADER), []
    if len(view) < position:
        raise CorruptRecordError("truncated snappy header")
    left = bytes_max
    while position < len(view):
        if len(view) - position < _INT32.size:
            raise CorruptRecordError("truncated snappy block size")
        (size,) = _INT32.unpack_from(view, position)
        position += _INT32.size
        if not 0 < size <= len(view) - position:
            raise CorruptRecordError(f"a snappy block claims {size} bytes, but {len(view) - position} are left")
        block = _decompress_snappy_block(view[position : position + size], left)
        position += size
        left -= len(block)
        blocks.append(block)
    return b"".join(blocks)


def _decompress_snappy_block(block: memoryview, bytes_max: int) -> bytes:
    snappy = import_module("snappy")
    size = shift = 0  # the block opens with its size as an unsigned varint
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > bytes_max:
        raise _too_large(bytes_max)
    try:
        return bytes(snappy.uncompress(bytes(block)))
    except Exception as error:  # no error class is common to all versions of the library
        raise CorruptRecordError(f"damaged snappy data: {error}") from error


def _compress_lz4(data: bytes | bytearray | memoryview, level: int | None, *, wrong_checksum: bool) -> bytes:
    frame = import_module("lz4.frame")
    default = level is None or level == LZ4_DEFAULT_LEVEL
    compressed: bytes = frame.compress(
        bytes(data),
        compression_level=0 if default or level is None else min(max(level, _LZ4_LEVEL_MIN), _LZ4_LEVEL_MAX),
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    if not wrong_checksum:
        return compressed
    return compressed[:6] + bytes([_lz4_header_checksum(compressed[:6])]) + compressed[7:]


def _decompress_lz4(data: bytes | memoryview, bytes_max: int, *, any_checksum: bool) -> bytes:
    header = _checked_lz4_header(data, any_checksum=any_checksum)
    frame = import_module("lz4.frame")
    stream = frame.LZ4FrameDecompressor()
    pieces: list[bytes] = []
    left = bytes_max
    try:
        stream.decompress(header)
        rest: bytes | memoryview = memoryview(data)[len(header) :]
        while not stream.eof:
            piece: bytes = stream.decompress(rest, max_length=min(left + 1, _PIECE_BYTES))
            rest = b""
            if not piece and not stream.eof and stream.needs_input:
                raise CorruptRecordError("truncated lz4 data")
            left -= len(piece)
            if left < 0:
                raise _too_large(bytes_max)
            pieces.append(piece)
    except RuntimeError as error:
        raise CorruptRecordError(f"damaged lz4 data: {error}") from error
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _checked_lz4_header(data: bytes | memoryview, *, any_checksum: bool) -> bytes:
    """Return the frame's header, with the right checksum if any checksum is allowed. Raises CorruptRecordError."""
    size = 15 if len(data) > 4 and data[4] & _LZ4_CONTENT_SIZE else 7
    header = bytes(data[:size])
    if len(header) < size or header[:4] != _LZ4_MAGIC:
        raise CorruptRecordError("not an lz4 frame")
    if not header[4] & _LZ4_BLOCKS_INDEPENDENT:
        raise CorruptRecordError("the lz4 blocks depend on each other; Kafka's clients cannot read such blocks")
    return header[:-1] + bytes([_lz4_header_checksum(header[4:-1])]) if any_checksum else header


def _lz4_header_checksum(header: bytes) -> int:
    """Return the second byte of XXH32 with seed 0, for inputs below 16 bytes; longer inputs need more of the algorithm."""
    assert len(header) < 16
    mask, prime1, prime2, prime3, prime4, prime5 = 0xFFFFFFFF, 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    value = prime5 + len(header)
    words = len(header) // 4 * 4
    for (word,) in struct.iter_unpack("<I", header[:words]):
        value = value + word * prime3 & mask
        value = (value << 17 | value >> 15) * prime4 & mask
    for byte in header[words:]:
        value = value + byte * prime5 & mask
        value = (value << 11 | value >> 21) * prime1 & mask
    value = (value ^ value >> 15) * prime2 & mask
    value = (value ^ value >> 13) * prime3 & mask
    return (value ^ value >> 16) >> 8 & 0xFF


def _zstd_compressor(level: int) -> Any:
    """Return a compressor of this thread; one of another level than the default may need much memory, and is not kept."""
    zstandard = import_module("zstandard")
    if level != _ZSTD_LEVEL:
        return zstandard.ZstdCompressor(level=level)
    kept = getattr(_OF_THREAD, "compressor", None)
    if kept is None:
        kept = _OF_THREAD.compressor = zstandard.ZstdCompressor(level=level)
    return kept


def _zstd_decompressor() -> Any:
    """Return this thread's decompressor, which refuses frames that want a large window: it would keep that memory."""
    kept = getattr(_OF_THREAD, "decompressor", None)
    if kept is None:
        kept = import_module("zstandard").ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
        _OF_THREAD.decompressor = kept
    return kept


def _decompress_zstd(data: bytes | memoryview, bytes_max: int) -> bytes:
    zstandard = import_module("zstandard")
    try:
        return _read_zstd(_zstd_decompressor(), data, bytes_max)
    except zstandard.ZstdError:
        pass  # a large window, or damage
    try:
        return _read_zstd(zstandard.ZstdDecompressor(), data, bytes_max)
    except zstandard.ZstdError as error:
        raise CorruptRecordError(f"damaged zstd data: {error}") from error


def _read_zstd(decompressor: Any, data: bytes | memoryview, bytes_max: int) -> bytes:
    pieces: list[bytes] = []
    left = bytes_max
    with decompressor.stream_reader(data, read_across_frames=True) as reader:
        while piece := reader.read(min(left + 1, _PIECE_BYTES)):
            left -= len(piece)
            if left < 0:
                raise _too_large(bytes_max)
            pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
