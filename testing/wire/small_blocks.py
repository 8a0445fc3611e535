"""Compressed data of very many small blocks: of few bytes, each of which asks a decoder for tables, or gives nothing.

These are the slowest that were found for each library: about 0.1 us of a decoder's time for each byte.
"""

from __future__ import annotations

import random
import struct
import zlib

_GZIP_START = b"\x1f\x8b\x08\0" + bytes(6)
_ZSTD_START = struct.pack("<I", 0xFD2FB528) + b"\0\x50"  # a window of 1 MiB, no size of the content
_ZSTD_COMPRESSED = 2
_EMPTY_FIXED_BLOCK = 0b010  # 3 bits of its header, and 7 of the code that ends it

_LITERAL_COUNT, _SEQUENCE_COUNT, _THREE_TABLES = b"\0", b"\1", b"\xa8"  # no literals; one sequence; each of its codes in a table
_TABLES = bytes.fromhex("14f03f 13f80f 14f03f")  # of 512, 256 and 512 entries
_SEQUENCE = bytes.fromhex("8f2d1305")


def empty_gzip_blocks(size: int, records: bytes) -> bytes:
    """Return a gzip member of about `size` bytes: blocks of ten bits that hold nothing, and then the records."""
    eight = sum(_EMPTY_FIXED_BLOCK << 10 * number for number in range(8)).to_bytes(10, "little")
    packer = zlib.compressobj(wbits=-15)
    return _member(eight * (size // 10) + packer.compress(records) + packer.flush(), records)


def small_gzip_blocks(records: bytes, *, each: int = 20) -> bytes:
    """Return a gzip member with a block for every `each` bytes of the records, in a code of its own where that is shorter."""
    packer = zlib.compressobj(9, wbits=-15, memLevel=9, strategy=zlib.Z_HUFFMAN_ONLY)
    blocks: list[bytes] = []
    for start in range(0, len(records), each):
        blocks += packer.compress(records[start : start + each]), packer.flush(zlib.Z_PARTIAL_FLUSH)
    return _member(b"".join(blocks) + packer.flush(), records)


def _member(blocks: bytes, records: bytes) -> bytes:
    return _GZIP_START + blocks + struct.pack("<II", zlib.crc32(records), len(records))


def few_letters(count: int) -> bytes:
    """Return text of four letters, of which some are much more frequent."""
    return bytes(random.Random(2).choices(b"abcd", (8, 5, 4, 3), k=count))


def zstd_tables(size: int) -> bytes:
    """Return a zstd frame of about `size` bytes: blocks of 19 bytes that have three tables each, and hold three bytes."""
    small = _zstd_block(_LITERAL_COUNT + _SEQUENCE_COUNT + _THREE_TABLES + _TABLES + _SEQUENCE, _ZSTD_COMPRESSED)
    return _ZSTD_START + _zstd_block(b"0123456789abcdef") + small * (size // len(small)) + _zstd_block(b"", is_last=True)


def _zstd_block(content: bytes, kind: int = 0, *, is_last: bool = False) -> bytes:
    return (is_last | kind << 1 | len(content) << 3).to_bytes(3, "little") + content
