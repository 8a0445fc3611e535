"""The requests of `standstills`: small ones that ask for much work, and large honest ones."""

from __future__ import annotations

import gzip
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

import lz4.frame
import zstandard

from benchmarks.batches import GZIP, LZ4, SNAPPY, ZSTD, batch, identical_records
from testing.clients.stock import create_topic
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire import raw_groups as groups
from testing.wire.batches import sample_batch
from testing.wire.small_blocks import empty_gzip_blocks, few_letters, small_gzip_blocks, zstd_tables

CREATE_TOPICS: Final = 19
MANY: Final = 1_000_000
HONEST_BATCH: Final = 5_000
BATCH_BYTES_MAX: Final = str(4 << 20)
MIB: Final = 1 << 20
DAY_MS: Final = 86_400_000
NO_KEY: Final = b"\x01"

Make = Callable[[str, str], list[bytes]]
"""Prepares a broker, named by its address, with a topic of this name, and returns the frames to send."""


class Case(NamedTuple):
    """A request, or several at once on one connection, or the same on several connections at once."""

    what: str
    make: Make
    responses: int = 1
    connections: int = 1


def produce(topic: str, batches: Mapping[int, bytes], version: int = 7) -> bytes:
    return raw.request(raw.PRODUCE, version, raw.produce_body(version, topic, batches, acks=1, timeout_ms=60_000))


def sent_once(data: Callable[[], bytes], *, partitions: int = 1, version: int = 7, **configs: str) -> Make:
    """Return what makes a Produce of the same batch to each partition of a new topic."""

    def make(bootstrap: str, topic: str) -> list[bytes]:
        create_topic(bootstrap, topic, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        return [produce(topic, dict.fromkeys(range(partitions), data()), version)]

    return make


def with_topic(frame: Callable[[str], bytes]) -> Make:
    def make(bootstrap: str, topic: str) -> list[bytes]:
        create_topic(bootstrap, topic, 1)
        return [frame(topic)]

    return make


# --- Batches --------------------------------------------------------------------------------------------------------------------


@cache
def counted_records(count: int, base_ms: int) -> bytes:
    """Return a zstd batch of records without key and value, each a ms later than the one before."""
    records = bytearray()
    for number in range(count):
        body = b"\0" + _varint(2 * number) * 2 + NO_KEY + b"\0\0"
        records += _varint(2 * len(body)) + body
    return batch(zstandard.ZstdCompressor(level=9).compress(records), count, codec=ZSTD, base_ms=base_ms, span_ms=count - 1)


def _varint(value: int) -> bytes:
    return groups.unsigned(value)


def one_record(value_bytes: int) -> bytes:
    """Return an encoded record with a value of zeros."""
    value = _varint(2 * value_bytes) + bytes(value_bytes)
    return _varint(2 * (4 + len(value) + 1)) + b"\0\0\0" + NO_KEY + value + b"\0"


@cache
def zstd_zeros() -> bytes:
    return batch(zstandard.ZstdCompressor().compress(one_record(126 * MIB)), 1, codec=ZSTD)


@cache
def gzip_zeros(mebibytes: int) -> bytes:
    packer = zlib.compressobj(6, wbits=31)
    record = one_record(mebibytes * MIB)
    return batch(packer.compress(record) + packer.flush(), 1, codec=GZIP)


def zstd_repeated_blocks() -> bytes:
    """Return 8,000 MiB of zeros: blocks of 128 KiB that hold one byte each, in a frame that names no size."""
    header = struct.pack("<I", 0xFD2FB528) + bytes([0, 0x38])  # a window of 128 KiB
    block, last = (struct.pack("<I", 128 * 1024 << 3 | 1 << 1 | is_last)[:3] + b"\0" for is_last in (0, 1))
    return batch(header + block * 63_999 + last, 1, codec=ZSTD)


def gzip_empty_members() -> bytes:
    return batch(gzip.compress(b"", mtime=0) * 50_000, 1, codec=GZIP)


def snappy_empty_blocks() -> bytes:
    return batch(b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"\0\0\0\x01\0" * 200_000, 1, codec=SNAPPY)


def lz4_zeros() -> bytes:
    return batch(lz4.frame.compress(one_record(240 * MIB)), 1, codec=LZ4)


def zstd_empty_frames() -> bytes:
    frame = struct.pack("<I", 0xFD2FB528) + b"\x20\0" + b"\x01\0\0"  # of no bytes, in one last block of no bytes
    return batch(frame * 111_111, 1, codec=ZSTD)


@cache
def old_messages() -> bytes:
    """Return a message set of magic 0: a gzip wrapper around 4.6 million messages."""
    offset = struct.pack(">q", 0)
    inner = offset + groups.data(_old_message(0, b""))
    return offset + groups.data(_old_message(1, gzip.compress(inner * 4_600_000, 6, mtime=0)))


@cache
def old_messages_with_times() -> bytes:
    """Return a message set of magic 1: a gzip wrapper around 3.5 million messages."""
    offset = struct.pack(">q", 0)
    inner = offset + groups.data(_old_message(0, b"", magic=1))
    return offset + groups.data(_old_message(1, gzip.compress(inner * 3_500_000, 6, mtime=0), magic=1))


def _old_message(attributes: int, value: bytes, *, magic: int = 0) -> bytes:
    body = bytes([magic, attributes]) + bytes(8 * magic) + struct.pack(">i", -1) + groups.data(value)
    return struct.pack(">I", zlib.crc32(body)) + body


# --- Requests -------------------------------------------------------------------------------------------------------------------


def too_young(bootstrap: str, topic: str) -> list[bytes]:
    create_topic(bootstrap, topic, 1, {"message.timestamp.after.max.ms": "1000", "max.message.bytes": BATCH_BYTES_MAX})
    return [produce(topic, {0: counted_records(MANY, int(time.time() * 1000) // DAY_MS * DAY_MS + 2 * DAY_MS)})]


def by_time(count: int, times: int) -> Make:
    """Return what makes requests for an offset by time, in the middle of a batch with this many records."""

    def make(bootstrap: str, topic: str) -> list[bytes]:
        create_topic(bootstrap, topic, 1, {"max.message.bytes": BATCH_BYTES_MAX})
        _accepted(bootstrap, produce(topic, {0: counted_records(count, T0_MS)}))
        return [_list_offsets(topic, [0], T0_MS + count // 2)] * times

    return make


def by_time_in_ordinary_batches(bootstrap: str, topic: str) -> list[bytes]:
    partitions = 100
    create_topic(bootstrap, topic, partitions)
    samples = [Sample(None, b"%050d" % number + bytes(50), T0_MS + number) for number in range(HONEST_BATCH)]
    _accepted(bootstrap, produce(topic, dict.fromkeys(range(partitions), sample_batch(samples, "lz4"))))
    return [_list_offsets(topic, range(partitions), T0_MS + HONEST_BATCH - 1)]


def old_fetch(bootstrap: str, topic: str) -> list[bytes]:
    create_topic(bootstrap, topic, 1)
    _accepted(bootstrap, produce(topic, {0: gzip_zeros(120)}))
    return [raw.request(raw.FETCH, 2, raw.fetch_body(2, [raw.Ask(topic=topic)]))]


def offsets_of_a_million(topic: str) -> bytes:
    return raw.request(groups.OFFSET_FETCH, 5, groups.fetch_offsets_body("g", topic, range(MANY)))


def names(count: int) -> bytes:
    return struct.pack(">i", count) + raw.string("n") * count


def fetch_of_many(topic: str) -> bytes:
    partitions = groups.array(struct.pack(">iqi", number, 0, MIB) for number in range(500_000))
    body = struct.pack(">iiiib", -1, 0, 1, 50 * MIB, 0) + struct.pack(">i", 1) + raw.string(topic) + partitions
    return raw.request(raw.FETCH, 4, body)


def create_ten_thousand(bootstrap: str, topic: str) -> list[bytes]:
    del bootstrap
    body = struct.pack(">i", 1) + raw.string(topic) + struct.pack(">ihiiib", 10_000, 1, 0, 0, 60_000, 0)
    return [raw.request(CREATE_TOPICS, 2, body)]


def _list_offsets(topic: str, partitions: Iterable[int], timestamp_ms: int) -> bytes:
    asked = groups.array(struct.pack(">iq", partition, timestamp_ms) for partition in partitions)
    return raw.request(raw.LIST_OFFSETS, 1, struct.pack(">ii", -1, 1) + raw.string(topic) + asked)


def _accepted(bootstrap: str, frame: bytes) -> None:
    with raw.Connection(bootstrap, 120) as connection:
        connection.socket.sendall(frame)
        errors = errors_of_produce(connection.receive(1))
    if errors != [0]:
        raise RuntimeError(f"the broker did not take what a case needs: {errors}")


def errors_of_produce(response: bytes) -> list[int]:
    """Return the different error codes of a response to Produce v7."""
    reader, errors = raw.Reader(response), set()
    for _ in range(reader.int32()):
        reader.string()
        for _ in range(reader.int32()):
            reader.int32()
            errors.add(reader.int16())
            reader.take(24)
    return sorted(errors)


CASES: Final = [
    Case("Produce: 8,000,000 identical records, zstd", sent_once(lambda: identical_records(8 * MANY))),
    Case("Produce: 20 partitions of 100,000 identical records", sent_once(lambda: identical_records(100_000), partitions=20)),
    Case("Produce: 100 partitions, each 126 MiB of zeros in zstd", sent_once(zstd_zeros, partitions=100)),
    Case(
        "Produce: 1,000,000 records without key into a compacted topic",
        sent_once(lambda: counted_records(MANY, T0_MS), cleanup_policy="compact", max_message_bytes=BATCH_BYTES_MAX),
    ),
    Case("Produce: 1,000,000 records that are too young", too_young),
    Case("Produce: 950 MiB of zeros in gzip", sent_once(lambda: gzip_zeros(950))),
    Case("Produce: 8,000 MiB of zeros in zstd", sent_once(zstd_repeated_blocks)),
    Case("Produce: 50,000 empty members of gzip", sent_once(gzip_empty_members)),
    Case("Produce: 200,000 empty blocks of snappy", sent_once(snappy_empty_blocks)),
    Case("Produce: 240 MiB of zeros in lz4", sent_once(lz4_zeros)),
    Case("Produce: 111,111 empty frames of zstd", sent_once(zstd_empty_frames)),
    Case("Produce: 52,000 blocks of zstd, each with tables", sent_once(lambda: batch(zstd_tables(988_000), 1, codec=ZSTD))),
    Case("Produce: 800,000 empty blocks of gzip", sent_once(lambda: batch(empty_gzip_blocks(1_000_000, b""), 1, codec=GZIP))),
    Case(
        "Produce: 22,500 small blocks of gzip", sent_once(lambda: batch(small_gzip_blocks(few_letters(450_000)), 1, codec=GZIP))
    ),
    Case("Produce v2: 4,600,000 messages of magic 0 in gzip", sent_once(old_messages, version=2)),
    Case(
        "Produce v2: 3,500,000 messages of magic 1 in gzip, 16 at once",
        sent_once(old_messages_with_times, version=2),
        connections=16,
    ),
    Case("Fetch v2 of a batch that holds 120 MiB", old_fetch),
    Case("Fetch v2 of a batch that holds 120 MiB, 6 at once", old_fetch, connections=6),
    Case("ListOffsets by time into a batch of 1,000,001 records", by_time(MANY + 1, 1)),
    Case("16 of them at once, batch of 200,001", by_time(200_001, 16), 16),
    Case("ListOffsets by time, 100 partitions, batches of 5,000 records", by_time_in_ordinary_batches),
    Case("OffsetFetch of 1,000,000 partitions", with_topic(offsets_of_a_million)),
    Case(
        "DescribeGroups of 1,000,000 groups",
        lambda _, __: [raw.request(groups.DESCRIBE_GROUPS, 0, names(MANY))],
    ),
    Case("Metadata of 3,000,000 names", lambda _, __: [raw.request(raw.METADATA, 4, names(3 * MANY) + b"\0")]),
    Case("Fetch of 500,000 partitions", with_topic(fetch_of_many)),
    Case("CreateTopics: 10,000 partitions", create_ten_thousand),
]
