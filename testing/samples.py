"""Records to send, and records that a client reports to have read, in one form for all clients."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import NamedTuple

# An hour ago, because brokers delete records older than a week, even in the middle of a test.
T0_MS = int(time.time()) // 10 * 10_000 - 3_600_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Headers = tuple[tuple[str, bytes | None], ...]


class Sample(NamedTuple):
    """A record to send. The timestamp is in ms since the epoch."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()


class Received(NamedTuple):
    """A record that was read back from a partition."""

    offset: int
    sample: Sample


def varied(count: int, *, seed: int = 0, largest_bytes: int = 2_000) -> list[Sample]:
    """Return records with and without key, value and headers.

    Half of the values compress; timestamps rise, with equal neighbours.
    """
    rng = random.Random(seed)
    records = []
    for i in range(count):
        size = rng.choice([0, 1, 10, 100, rng.randrange(largest_bytes)])
        value = rng.randbytes(size) if rng.random() < 0.5 else (b"value-%d." % i * (size // 8 + 1))[:size]
        headers = tuple((f"h{n}", rng.choice([b"", b"x" * n, "ü".encode()])) for n in range(i % 3))
        records.append(Sample(rng.choice([None, b"", b"key-%d" % i]), value, T0_MS + i // 2 * 10, headers))
    records[1] = records[1]._replace(key=b"tombstone", value=None)
    return records


def without_headers(samples: Sequence[Sample]) -> list[Sample]:
    """Return the records as a client that knows no headers sends or reads them."""
    return [sample._replace(headers=()) for sample in samples]


def sized(sizes: Sequence[int]) -> list[Sample]:
    """Return a record per size, incompressible, so that compression cannot hide a limit."""
    rng = random.Random(1)
    return [Sample(b"%d" % size, rng.randbytes(size), T0_MS + size) for size in sizes]


def assert_equal(received: Sequence[Received], sent: Sequence[Sample], *, first_offset: int = 0) -> None:
    """Assert that the same records came, in order, at consecutive offsets; fail with the first difference, not with megabytes."""
    for index, (got, expected) in enumerate(zip(received, sent, strict=False)):
        assert got.offset == first_offset + index
        assert got.sample == expected, f"record {index} of {len(sent)}"
    assert len(received) == len(sent)
