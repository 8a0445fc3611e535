"""Record batches around payloads that no encoder makes."""

from __future__ import annotations

import struct
from typing import Final

import zstandard
from crc32c import crc32c

from testing.samples import T0_MS

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
_HEADER: Final = struct.Struct(">qiib")  # base offset, length, leader epoch, magic
_REST: Final = struct.Struct(">hiqqqhii")


def batch(payload: bytes, count: int, *, codec: int, base_ms: int = T0_MS, span_ms: int = 0) -> bytes:
    """Return a batch whose header announces `count` records, from `base_ms` to `span_ms` later."""
    body = _REST.pack(codec, count - 1, base_ms, base_ms + span_ms, -1, -1, -1, count) + payload
    return _HEADER.pack(0, 9 + len(body), -1, 2) + struct.pack(">I", crc32c(body)) + body


def identical_records(count: int) -> bytes:
    """Return a zstd batch of identical records, whose offset deltas are all 0."""
    record = bytes([14, 0, 0, 0, 1, 2, ord("v"), 0])  # no key
    return batch(zstandard.ZstdCompressor().compress(record * count), count, codec=ZSTD)
