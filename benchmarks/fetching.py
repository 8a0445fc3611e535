"""Fills a topic with batches of some size and reads it whole with one version of Fetch: raw requests, cheap to send."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass

from testing.process import procstat
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire.batches import sample_batch

BATCH_BYTES = 16_384  # as producers make them by default
BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES = 61, 20
PARTITIONS_PER_REQUEST = 25
SET_HEADER = struct.Struct(">qi")
MAGIC_AT, LAST_OFFSET_DELTA_AT = 16, 23


def fill(bootstrap: str, topic: str, *, partitions: int, records: int, size: int, batch_bytes: int = BATCH_BYTES) -> None:
    """Write uncompressed magic-2 batches evenly over the partitions, the same bytes in each: a broker does not look into them."""
    value = bytes(65 + n % 26 for n in range(size))
    per_batch = max(1, (batch_bytes - BATCH_OVERHEAD_BYTES) // (size + RECORD_OVERHEAD_BYTES))
    left = [records // partitions + (p < records % partitions) for p in range(partitions)]
    made: dict[int, bytes] = {}
    with raw.Connection(bootstrap, timeout_s=120) as connection:
        for first in range(0, partitions, PARTITIONS_PER_REQUEST):
            group = range(first, min(partitions, first + PARTITIONS_PER_REQUEST))
            while any(left[p] for p in group):
                counts = {p: min(per_batch, left[p]) for p in group if left[p]}
                for count in counts.values():
                    if count not in made:
                        made[count] = sample_batch([Sample(None, value, T0_MS)] * count)
                body = raw.produce_body(7, topic, {p: made[count] for p, count in counts.items()}, acks=1)
                _check_produced(connection.call(raw.PRODUCE, 7, body))
                for p, count in counts.items():
                    left[p] -= count


def _check_produced(data: bytes) -> None:
    reader = raw.Reader(data)
    for _ in range(reader.int32()):
        reader.string()
        for _ in range(reader.int32()):
            partition, error = reader.int32(), reader.int16()
            if error:
                raise RuntimeError(f"Produce: partition {partition} error {error}")
            reader.take(8 + 8 + 8)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The cost of reading a topic: `cpu_s` of the broker, bytes of the responses."""

    records: int
    seconds: float
    cpu_s: float
    wire_bytes: int
    magics: frozenset[int]


def read_all(
    bootstrap: str, pid: int, topic: str, *, version: int, partitions: int, records: int, partition_bytes: int
) -> Reading:
    """Fetch until everything has come, 50 MB at most per response from version 3 on, as a consumer's defaults have it."""
    offsets = [0] * partitions
    magics: set[int] = set()
    wire_bytes = first = idle = 0
    with raw.Connection(bootstrap, timeout_s=120) as connection:
        cpu_before, began = procstat.cpu_s(pid), time.monotonic()
        while sum(offsets) < records:
            order = [(first + n) % partitions for n in range(partitions)]  # a broker fills its response in this order
            first = (first + 1) % partitions
            asks = [raw.Ask(topic=topic, partition=p, offset=offsets[p], bytes_max=partition_bytes) for p in order]
            response = raw.fetch(connection, version, asks, wait_ms=500, bytes_max=50 << 20)
            wire_bytes += response.size
            before = sum(offsets)
            for fetched in response.partitions:
                if fetched.error:
                    raise RuntimeError(f"Fetch v{version}: partition {fetched.partition} error {fetched.error}")
                offsets[fetched.partition] = max(offsets[fetched.partition], next_offset(fetched.records, magics))
            idle = idle + 1 if sum(offsets) == before else 0
            if idle > 20:
                raise RuntimeError(f"Fetch v{version}: stuck at {before} of {records} records")
        seconds, cpu = time.monotonic() - began, procstat.cpu_s(pid) - cpu_before
    return Reading(records=records, seconds=seconds, cpu_s=cpu, wire_bytes=wire_bytes, magics=frozenset(magics))


def next_offset(records: bytes, magics: set[int]) -> int:
    """Return the offset behind the last whole message or batch, 0 when there is none; add the magics of all to `magics`."""
    position, following, end = 0, 0, len(records)
    unpack = SET_HEADER.unpack_from
    while position + MAGIC_AT < end:
        offset, size = unpack(records, position)
        if size <= 0 or position + 12 + size > end:
            break
        magic = records[position + MAGIC_AT]
        magics.add(magic)
        following = offset + 1
        if magic == 2:
            following += struct.unpack_from(">i", records, position + LAST_OFFSET_DELTA_AT)[0]
        position += 12 + size
    return following
