"""Message sets of magic 0 and 1, written and read for the tests by code of their own.

    message set   (offset 8, size 4, message)*
    message       crc 4, magic 1, attributes 1, [timestamp 8 from magic 1 on], key 4+, value 4+
    wrapper       a message whose attributes name a codec and whose value is a compressed message set; its offset is that of the
                  last message inside. Offsets inside are absolute in magic 0, relative to the first in magic 1.

LZ4 in magic 0 has a bug that became the format: the frame's header checksum also covers the frame's magic number (KAFKA-3160).
Old clients insist on it, so this module writes and requires it.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import lz4.frame
from kafka.codec import snappy_decode, snappy_encode

from testing.samples import Received, Sample

CODEC_IDS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
CODEC_NAMES = {number: name for name, number in CODEC_IDS.items()}
CODEC_MASK, LOG_APPEND_TIME = 0x07, 0x08
SET_HEADER = struct.Struct(">qi")
NO_TIMESTAMP = -1
LZ4_HEADER_BYTES = 7  # magic 4, flags 1, block descriptor 1, checksum 1: without a content size


class Parsed(NamedTuple):
    """A parsed message set: the whole messages, then the bytes that follow them, which a client must ignore."""

    records: list[Received]
    rest: bytes
    magics: set[int]
    codecs: set[str]
    log_append_time: bool


# --- writing --------------------------------------------------------------------------------------------------------------------


def message_set(samples: Sequence[Sample], magic: int, codec: str = "none", first_offset: int = 0) -> bytes:
    """Build a message set as a producer sends it, in a wrapper when compressed. Magic 0 also counts from 0 inside a wrapper."""
    plain = b"".join(_entry(first_offset + i, magic, 0, s.timestamp_ms, s.key, s.value) for i, s in enumerate(samples))
    if codec == "none":
        return plain
    newest_ms = max(s.timestamp_ms for s in samples)
    return _entry(first_offset + len(samples) - 1, magic, CODEC_IDS[codec], newest_ms, None, _compress(plain, codec, magic))


def _entry(offset: int, magic: int, attributes: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> bytes:
    content = struct.pack(">bb", magic, attributes)
    if magic == 1:
        content += struct.pack(">q", timestamp_ms)
    content += _nullable(key) + _nullable(value)
    return SET_HEADER.pack(offset, len(content) + 4) + struct.pack(">I", zlib.crc32(content)) + content


def _nullable(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _compress(data: bytes, codec: str, magic: int) -> bytes:
    if codec == "gzip":
        return gzip.compress(data)
    if codec == "snappy":
        return bytes(snappy_encode(data))
    frame = lz4.frame.compress(data, store_size=False)
    return frame if magic else frame[: LZ4_HEADER_BYTES - 1] + _lz4_checksum(frame, first=0) + frame[LZ4_HEADER_BYTES:]


# --- reading --------------------------------------------------------------------------------------------------------------------


def parse(data: bytes) -> Parsed:
    """Parse a message set and check every checksum and length; `rest` begins with the first message that is not whole."""
    position, records, magics, codecs, log_append_time = 0, [], set(), set(), False
    while len(data) - position >= SET_HEADER.size:
        offset, size = SET_HEADER.unpack_from(data, position)
        if size > len(data) - position - SET_HEADER.size:
            break
        position += SET_HEADER.size + size
        magic, attributes, sample = _message(data[position - size : position])
        magics.add(magic)
        codecs.add(CODEC_NAMES[attributes & CODEC_MASK])
        log_append_time |= bool(attributes & LOG_APPEND_TIME)
        records += _unwrap(offset, magic, attributes, sample) if attributes & CODEC_MASK else [Received(offset, sample)]
    return Parsed(records, data[position:], magics, codecs, log_append_time)


def _message(data: bytes) -> tuple[int, int, Sample]:
    (crc,), content = struct.unpack_from(">I", data), data[4:]
    assert zlib.crc32(content) == crc
    magic, attributes = struct.unpack_from(">bb", content)
    assert magic in (0, 1), f"magic {magic} in an old message set"
    timestamp, position = NO_TIMESTAMP, 2
    if magic == 1:
        (timestamp,) = struct.unpack_from(">q", content, position)
        position += 8
    fields: list[bytes | None] = []
    for _ in range(2):
        (size,) = struct.unpack_from(">i", content, position)
        position += 4
        fields.append(None if size < 0 else content[position : position + size])
        position += max(0, size)
    assert position == len(content)
    return magic, attributes, Sample(fields[0], fields[1], timestamp)


def _unwrap(offset: int, magic: int, attributes: int, wrapper: Sample) -> list[Received]:
    assert wrapper.value is not None
    inner = parse(_decompress(wrapper.value, CODEC_NAMES[attributes & CODEC_MASK], magic))
    assert inner.magics == {magic}
    assert inner.codecs == {"none"}
    assert not inner.rest
    if magic == 0:
        assert inner.records[-1].offset == offset
        return inner.records
    base = offset - inner.records[-1].offset
    own_time = attributes & LOG_APPEND_TIME
    return [
        Received(base + r.offset, r.sample._replace(timestamp_ms=wrapper.timestamp_ms) if own_time else r.sample)
        for r in inner.records
    ]


def _decompress(data: bytes, codec: str, magic: int) -> bytes:
    if codec == "gzip":
        return gzip.decompress(data)
    if codec == "snappy":
        return bytes(snappy_decode(data))
    header = data[:LZ4_HEADER_BYTES]
    assert not header[4] & 0x08, "an old client cannot read a frame with a content size"
    assert header[6:] == _lz4_checksum(data, first=4 if magic else 0)
    return bytes(lz4.frame.decompress(header[:6] + _lz4_checksum(data, first=4) + data[LZ4_HEADER_BYTES:]))


def _lz4_checksum(frame: bytes, *, first: int) -> bytes:
    """Return the second byte of xxHash32 over the frame's header: the descriptor alone (first=4), or its magic too (magic 0)."""
    return bytes([xxh32_short(frame[first : LZ4_HEADER_BYTES - 1]) >> 8 & 0xFF])


def xxh32_short(data: bytes) -> int:
    """Compute xxHash32 with seed 0, for inputs of less than 16 bytes."""
    assert len(data) < 16
    h = 374761393 + len(data)
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        h = _rotate(h + word * 3266489917, 17) * 668265263
    for byte in data[whole:]:
        h = _rotate(h + byte * 374761393, 11) * 2654435761
    h &= 0xFFFFFFFF
    h = (h ^ h >> 15) * 2246822519 & 0xFFFFFFFF
    h = (h ^ h >> 13) * 3266489917 & 0xFFFFFFFF
    return h ^ h >> 16


def _rotate(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return value << bits | value >> 32 - bits
