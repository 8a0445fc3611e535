"""Looks through the records of a compressed batch of the usual form, with one decoder call for as much as possible.

The usual form is what the producers' libraries write: one gzip member, blocks of snappy in the Java library's framing, one lz4
frame of independent blocks, one zstd frame; and records that inflate to `QUICK_BYTES_MAX` at most. For anything else, damage
included, `look_through` returns None, and `validate.check` has all rules. So this module refuses no batch.

The inflated bytes go through the walk while they are in the processor's cache, and are not kept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from importlib import import_module
from time import perf_counter
from typing import Any, Final

from pybroker.protocol.error_codes import KafkaError
from pybroker.records import kernels, sections
from pybroker.records.compression import CompressionType
from pybroker.records.inflate import (
    GZIP_FED_BYTES,
    GZIP_WBITS,
    LZ4_BLOCKS_INDEPENDENT,
    LZ4_CONTENT_SIZE,
    LZ4_MAGIC,
    PIECE_BYTES,
    XERIAL_HEADER,
    XERIAL_MAGIC,
    ZSTD_DECOMPRESSORS,
    inflate_module,
    lz4_header_checksum,
    whole_inflate_module,
)
from pybroker.records.spare import Spare
from pybroker.records.work import PIECE_COST
from pybroker.sharing.work import SLICE_S

QUICK_BYTES_MAX: Final = 1 << 19
"""The bytes to which a batch may inflate here. The loop spends at most half of its share on a batch that turns out to be longer.
"""

_GZIP_USUAL_START: Final = b"\x1f\x8b\x08\0"  # without a name, a comment or other fields
_GZIP_TRAILER_BYTES: Final = 8
_GZIP_WHOLE_BYTES_MIN: Final = 10 + _GZIP_TRAILER_BYTES
_GZIP_WHOLE_BYTES_MAX: Final = 1 << 17  # many small blocks take libdeflate 0.08 us for each byte
_ZSTD_BLOCK_HEADER_BYTES: Final = 3
_ZSTD_REPEATED: Final = 1  # the type of a block of one byte, which it repeats
_ZSTD_SMALL_BYTES: Final = 1 << 12
_ZSTD_BLOCKS_MAX: Final = 256  # a small one that has tables of its own takes 2 us
_SNAPPY_BLOCK_BYTES: Final = 1 << 16  # twice what the Java library puts into a block
_LZ4_FLAGS_AT: Final = 4
_LZ4_HEADER_BYTES: Final = 7  # magic, flags, block size, checksum; flags may add the size of the content before the checksum
_LZ4_FLAGS: Final = (
    0x40 | LZ4_BLOCKS_INDEPENDENT
)  # version 1, no checksums of blocks or content: what Java's and C's clients write
_LZ4_FLAGS_WITH_SIZE: Final = _LZ4_FLAGS | LZ4_CONTENT_SIZE  # Python's
_LZ4_BLOCK_BYTES: Final = {0x40: 1 << 16, 0x50: 1 << 18, 0x60: 1 << 20, 0x70: 1 << 22}
_LZ4_PLAIN_BLOCK: Final = 1 << 31
_LZ4_SIZE: Final = struct.Struct("<Q")
_UINT32: Final = struct.Struct("<I")
_INT32: Final = struct.Struct(">i")

Found = tuple[int, int, int, bool, int]
"""Max timestamp, min timestamp, number of records without a key, whether the offsets count 0, 1, 2..., and the inflated bytes."""


def look_through(codec: int, data: memoryview, *, record_count: int, base_timestamp: int) -> Found | None:
    """Return what the records in `data`, which is borrowed, have in common; None if they are not of the usual form."""
    look = _LOOKS.get(codec)
    if look is None or len(data) > QUICK_BYTES_MAX:
        return None
    found = sections.Overview(record_count, base_timestamp)
    try:
        size = look(data, found)
        if size is None:
            return None
        found.finish()
    except KafkaError:  # the records are damaged
        return None
    return found.max_timestamp, found.min_timestamp, found.keyless, found.is_sequential, size


def _look_gzip(data: memoryview, found: sections.Overview) -> int | None:
    library = whole_inflate_module()
    if library is None or not _GZIP_WHOLE_BYTES_MIN <= len(data) <= _GZIP_WHOLE_BYTES_MAX:
        return _look_gzip_pieces(data, found)
    size: int = _UINT32.unpack_from(data, len(data) - _UINT32.size)[0]
    if size > QUICK_BYTES_MAX or bytes(data[: len(_GZIP_USUAL_START)]) != _GZIP_USUAL_START:
        return _look_gzip_pieces(data, found)
    # The library looks for the trailer, checksum and size, where the first member ends. So if a trailer like the last one stands
    # nowhere before it, the first member is all.
    if not kernels.is_only_at_end(data, _GZIP_TRAILER_BYTES):
        return None
    try:
        records = library.gzip_decompress(data, size)
    except library.DeflateError:
        return None
    if len(records) != size:
        return None
    found.feed(records)
    return size


def _look_gzip_pieces(data: memoryview, found: sections.Overview) -> int | None:
    inflate = inflate_module()
    stream, size = inflate.decompressobj(GZIP_WBITS), 0
    end = perf_counter() + SLICE_S
    try:
        for start in range(0, len(data), GZIP_FED_BYTES):
            piece = stream.decompress(data[start : start + GZIP_FED_BYTES], PIECE_BYTES)
            size += len(piece)
            if size > QUICK_BYTES_MAX or stream.unconsumed_tail or perf_counter() > end:
                return None
            if piece:
                found.feed(piece)
    except inflate.error:
        return None
    return size if stream.eof and not stream.unused_data else None


def _look_snappy(data: memoryview, found: sections.Overview) -> int | None:
    position, end, size, blocks_cost = len(XERIAL_HEADER), len(data), 0, 0
    if bytes(data[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return None
    decompress, damage = _snappy()
    block = _SNAPPY_BLOCKS.take()
    try:
        while position < end:
            (block_size,) = _INT32.unpack_from(data, position)
            position += _INT32.size
            if not 0 < block_size <= end - position:
                return None
            given = decompress(data[position : position + block_size], block)
            position += block_size
            size += given
            blocks_cost += PIECE_COST  # a batch may be a hundred thousand empty blocks
            if size + blocks_cost > QUICK_BYTES_MAX:
                return None
            found.feed(block[:given])
    except (damage, struct.error):
        return None
    finally:
        _SNAPPY_BLOCKS.keep(block)
    return size


def _look_lz4(data: memoryview, found: sections.Overview) -> int | None:
    start = bytes(data[: _LZ4_HEADER_BYTES + _LZ4_SIZE.size])
    if len(start) <= _LZ4_HEADER_BYTES or not start.startswith(LZ4_MAGIC):
        return None
    flags, header_bytes = start[_LZ4_FLAGS_AT], _LZ4_HEADER_BYTES
    if flags == _LZ4_FLAGS_WITH_SIZE:
        header_bytes += _LZ4_SIZE.size
    elif flags != _LZ4_FLAGS:
        return _look_lz4_frame(data, found) if flags & LZ4_BLOCKS_INDEPENDENT else None
    header = start[_LZ4_FLAGS_AT:header_bytes]
    block_max = _LZ4_BLOCK_BYTES.get(header[1])
    if block_max is None or len(start) < header_bytes or lz4_header_checksum(header[:-1]) != header[-1]:
        return None
    size = _look_lz4_blocks(data, found, position=header_bytes, block_max=min(block_max, QUICK_BYTES_MAX))
    if flags == _LZ4_FLAGS_WITH_SIZE and size is not None and (size,) != _LZ4_SIZE.unpack_from(header, 2):
        return None
    return size


def _look_lz4_blocks(data: memoryview, found: sections.Overview, *, position: int, block_max: int) -> int | None:
    """Look at blocks without checksums one by one, so that each is in the processor's cache when the walk comes to it."""
    decompress, damage = _lz4_block()
    end, size, blocks_cost = len(data), 0, 0
    kept = _LZ4_BLOCKS.take()
    inflated = kept[:block_max]  # the library goes as far as this is long
    try:
        while True:
            (block_size,) = _UINT32.unpack_from(data, position)
            position += _UINT32.size
            if not block_size:
                return size if position == end else None
            is_plain, block_size = block_size & _LZ4_PLAIN_BLOCK, block_size & ~_LZ4_PLAIN_BLOCK
            block = data[position : position + block_size]
            if len(block) < block_size or not 0 < block_size <= block_max:
                return None
            position += block_size
            piece = block if is_plain else inflated[: decompress(block, inflated, output_len=block_max)]
            size += len(piece)
            blocks_cost += PIECE_COST
            if size + blocks_cost > QUICK_BYTES_MAX:
                return None
            found.feed(piece)
    except (damage, struct.error):
        return None
    finally:
        _LZ4_BLOCKS.keep(kept)


def _look_lz4_frame(data: memoryview, found: sections.Overview) -> int | None:
    """Look at a frame with checksums, which the library compares."""
    decompress, position, size = _lz4(), 0, 0
    context, is_end = _LZ4_CONTEXTS.take(), False
    try:
        while not is_end:
            piece, read, is_end = decompress(context, data[position:], max_length=PIECE_BYTES)
            position += read
            size += len(piece)
            if size > QUICK_BYTES_MAX or not (read or piece):
                return None
            found.feed(piece)
    except RuntimeError:
        return None
    if position != len(data):
        return None
    _LZ4_CONTEXTS.keep(context)  # a context that did not reach the end of its frame is of no more use
    return size


def _look_zstd(data: memoryview, found: sections.Overview) -> int | None:
    content_size, damage = _zstd()
    decompressor = ZSTD_DECOMPRESSORS.take()
    try:
        if content_size(data) > QUICK_BYTES_MAX:  # it would be allocated
            return None
        if len(data) > _ZSTD_SMALL_BYTES and not _has_few_zstd_blocks(data):
            return None
        records = decompressor.decompress(data, QUICK_BYTES_MAX, allow_extra_data=False)
    except damage:
        return None
    finally:
        ZSTD_DECOMPRESSORS.keep(decompressor)
    found.feed(records)
    return len(records)


def _has_few_zstd_blocks(data: memoryview) -> bool:
    """Return whether the first frame of `data` has few blocks: a producer's has one for each 128 kB that it holds. Raises as the
    library if there is no frame.
    """
    position = _zstd_header_size()(data)
    for _ in range(_ZSTD_BLOCKS_MAX):
        header = int.from_bytes(data[position : position + _ZSTD_BLOCK_HEADER_BYTES], "little")
        if header & 1:
            return True
        position += _ZSTD_BLOCK_HEADER_BYTES + (1 if header >> 1 & 3 == _ZSTD_REPEATED else header >> 3)
    return False


@cache  # a module's functions, looked up once: an import statement costs as much as the rest of a look at a small batch
def _snappy() -> tuple[Any, Any]:
    library = import_module("cramjam")
    return library.snappy.decompress_raw_into, library.DecompressionError


@cache
def _lz4() -> Any:
    return import_module("lz4.frame").decompress_chunk


@cache
def _lz4_block() -> tuple[Any, Any]:
    library = import_module("cramjam")
    return library.lz4.decompress_block_into, library.DecompressionError


@cache
def _zstd() -> tuple[Any, Any]:
    library = import_module("zstandard")
    return library.frame_content_size, library.ZstdError


@cache
def _zstd_header_size() -> Any:
    return import_module("zstandard").frame_header_size


def _lz4_context() -> Any:
    return import_module("lz4.frame").create_decompression_context()


_LZ4_CONTEXTS: Final = Spare(_lz4_context)
_LZ4_BLOCKS: Final = Spare(lambda: memoryview(bytearray(QUICK_BYTES_MAX)))
_SNAPPY_BLOCKS: Final = Spare(lambda: memoryview(bytearray(_SNAPPY_BLOCK_BYTES)))

_LOOKS: Final[dict[int, Callable[[memoryview, sections.Overview], int | None]]] = {
    CompressionType.GZIP: _look_gzip,
    CompressionType.SNAPPY: _look_snappy,
    CompressionType.LZ4: _look_lz4,
    CompressionType.ZSTD: _look_zstd,
}
