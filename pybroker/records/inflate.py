"""Inflates compressed records piece by piece, so that memory never holds the whole of what a few bytes may stand for.

Each function yields what the data inflates to, in pieces of about `PIECE_BYTES` at most, and an empty piece where a step gave
nothing: a caller that counts steps sees each. All raise CorruptRecordError where the data is damaged, after the pieces before the
damage. The exception is a raw snappy block, which is one piece whatever its size, because the library inflates it at once; it
cannot be larger than `_SNAPPY_RATIO_MAX` times its compressed size.

The codecs let go of the interpreter while they work. Everything here may run in any thread.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Final

from pybroker.protocol.wire import DecodeError, read_uvarint
from pybroker.records.errors import CorruptRecordError
from pybroker.records.spare import Spare

PIECE_BYTES: Final = 1 << 18

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
GZIP_WBITS: Final = 31

GZIP_FED_BYTES: Final = 1 << 14  # at once: zlib copies what it has not used of its input
_ZSTD_FED_BYTES: Final = 1 << 14
_INT32: Final = struct.Struct(">i")
_SNAPPY_RATIO_MAX: Final = 24  # three bytes stand for 64 at most
_ZSTD_WINDOW_BYTES: Final = 1 << 21  # of the default level
LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
LZ4_BLOCKS_INDEPENDENT: Final = 0x20
LZ4_CONTENT_SIZE: Final = 0x08


def plain_pieces(data: bytes | memoryview) -> Iterator[bytes | memoryview]:
    """Yield data that is not compressed, borrowed."""
    if len(data) <= PIECE_BYTES:
        yield data
        return
    view = memoryview(data)
    for start in range(0, len(view), PIECE_BYTES):
        yield view[start : start + PIECE_BYTES]


@cache  # an import that fails takes longer than decompressing a batch
def whole_inflate_module() -> Any:
    """Return libdeflate, which takes three quarters of isal's time and inflates only what is whole; None where there is none."""
    try:
        return import_module("deflate")
    except ImportError:
        return None


@cache
def inflate_module() -> Any:
    """Return isal's twin of zlib, which takes half of the time, or zlib where there is none.

    isal ignores the reserved flags of a gzip header, as Java does and zlib does not.
    """
    try:
        return import_module("isal.isal_zlib")
    except ImportError:
        return zlib


def gzip_pieces(data: bytes | memoryview) -> Iterator[bytes]:
    """Inflate gzip members that follow each other, at least one."""
    inflate = inflate_module()
    view, fed = memoryview(data), 0
    stream: Any = inflate.decompressobj(GZIP_WBITS)
    rest: bytes | memoryview = b""
    try:
        while True:
            if not rest:
                rest = view[fed : fed + GZIP_FED_BYTES]
                fed += len(rest)
            if stream.eof:
                if not rest:
                    return
                stream = inflate.decompressobj(GZIP_WBITS)
            piece: bytes = stream.decompress(rest, PIECE_BYTES)
            yield piece
            rest = stream.unused_data if stream.eof else stream.unconsumed_tail
            while len(piece) >= PIECE_BYTES and not rest and not stream.eof:  # the stream may still hold some
                piece = stream.decompress(b"", PIECE_BYTES)
                yield piece
                rest = stream.unused_data
            if not rest and fed == len(view) and not stream.eof:
                raise CorruptRecordError("truncated gzip data")
    except inflate.error as error:
        raise CorruptRecordError(f"damaged gzip data: {error}") from error


def snappy_pieces(data: bytes | memoryview) -> Iterator[bytes | memoryview]:
    """Inflate the blocks in the Java library's framing, or one raw block."""
    view = memoryview(data)
    if bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        yield _snappy_block(view)
        return
    position = len(XERIAL_HEADER)
    if len(view) < position:
        raise CorruptRecordError("truncated snappy header")
    while position < len(view):
        if len(view) - position < _INT32.size:
            raise CorruptRecordError("truncated snappy block size")
        (size,) = _INT32.unpack_from(view, position)
        position += _INT32.size
        if not 0 < size <= len(view) - position:
            raise CorruptRecordError(f"a snappy block claims {size} bytes, but {len(view) - position} are left")
        yield _snappy_block(view[position : position + size])
        position += size


def _snappy_block(block: memoryview) -> bytes | memoryview:
    try:
        size, _ = read_uvarint(block, 0)
    except (IndexError, DecodeError) as error:
        raise CorruptRecordError("damaged snappy data: a block begins without its size") from error
    if size > len(block) * _SNAPPY_RATIO_MAX:
        raise CorruptRecordError(f"a snappy block of {len(block)} bytes claims to hold {size}")
    try:
        if size > PIECE_BYTES:  # one raw block: `snappy` would hold the interpreter while it copies that
            return memoryview(import_module("cramjam").snappy.decompress_raw(block))
        return bytes(import_module("snappy").uncompress(bytes(block)))
    except Exception as error:  # no error class is common to all versions of the library
        raise CorruptRecordError(f"damaged snappy data: {error}") from error


def lz4_pieces(data: bytes | memoryview, *, any_checksum: bool = False) -> Iterator[bytes]:
    """Inflate a frame of independent blocks. `any_checksum`: the checksum of its header need not be right."""
    header = _checked_lz4_header(data, any_checksum=any_checksum)
    stream = import_module("lz4.frame").LZ4FrameDecompressor()
    try:
        stream.decompress(header)
        rest: bytes | memoryview = memoryview(data)[len(header) :]
        while not stream.eof:
            piece: bytes = stream.decompress(rest, max_length=PIECE_BYTES)
            rest = b""
            if not piece and not stream.eof and stream.needs_input:
                raise CorruptRecordError("truncated lz4 data")
            yield piece
    except RuntimeError as error:
        raise CorruptRecordError(f"damaged lz4 data: {error}") from error


def _checked_lz4_header(data: bytes | memoryview, *, any_checksum: bool) -> bytes:
    """Return the frame's header, with the right checksum if any checksum is allowed. Raises CorruptRecordError."""
    size = 15 if len(data) > 4 and data[4] & LZ4_CONTENT_SIZE else 7
    header = bytes(data[:size])
    if len(header) < size or header[:4] != LZ4_MAGIC:
        raise CorruptRecordError("not an lz4 frame")
    if not header[4] & LZ4_BLOCKS_INDEPENDENT:
        raise CorruptRecordError("the lz4 blocks depend on each other; Kafka's clients cannot read such blocks")
    return header[:-1] + bytes([lz4_header_checksum(header[4:-1])]) if any_checksum else header


@lru_cache(64)  # the frames of a producer begin alike, and this takes as long as all else that looks at a frame of 64 kB
def lz4_header_checksum(header: bytes) -> int:
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


def zstd_pieces(data: bytes | memoryview) -> Iterator[bytes]:
    """Inflate zstd frames that follow each other."""
    zstandard = import_module("zstandard")
    given = 0
    decompressor = ZSTD_DECOMPRESSORS.take()
    try:
        for piece in _read_zstd(decompressor, data):
            given += len(piece)
            yield piece
    except zstandard.ZstdError:
        pass  # a large window, or damage
    else:
        return
    finally:
        ZSTD_DECOMPRESSORS.keep(decompressor)
    try:
        for piece in _read_zstd(zstandard.ZstdDecompressor(), data):
            known = min(given, len(piece))
            given -= known
            yield piece[known:]
    except zstandard.ZstdError as error:
        raise CorruptRecordError(f"damaged zstd data: {error}") from error


def _zstd_decompressor() -> Any:
    """Return a decompressor that refuses frames that want a large window: it would keep that memory."""
    return import_module("zstandard").ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)


ZSTD_DECOMPRESSORS: Final = Spare(_zstd_decompressor)


def _read_zstd(decompressor: Any, data: bytes | memoryview) -> Iterator[bytes]:
    source = _Fed(data)
    with decompressor.stream_reader(source, read_across_frames=True, read_size=_ZSTD_FED_BYTES) as reader:
        is_fed = False
        while (piece := reader.read1(PIECE_BYTES)) or not is_fed:
            is_fed = source.is_empty
            yield piece


class _Fed:
    """The source of a reader of zstd: `data` in small pieces, so that no step inflates many small blocks."""

    __slots__ = ("_position", "_view")

    def __init__(self, data: bytes | memoryview) -> None:
        self._view = memoryview(data)
        self._position = 0

    @property
    def is_empty(self) -> bool:
        """Whether all was read."""
        return self._position >= len(self._view)

    def read(self, size: int) -> memoryview:
        """Return the next bytes, borrowed, at most `size`."""
        piece = self._view[self._position : self._position + size]
        self._position += len(piece)
        return piece
