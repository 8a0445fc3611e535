"""Magic-2 batches with exactly the records that a test needs, built by kafka-python's encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafka.record import MemoryRecordsBuilder

from testing.wire.legacy import CODEC_IDS
from testing.wire.raw import Connection, produce

if TYPE_CHECKING:
    from testing.samples import Sample

BATCH_IDS = {**CODEC_IDS, "zstd": 4}


def sample_batch(samples: Sequence[Sample], codec: str = "none") -> bytes:
    """Encode a batch. The encoder leaves it uncompressed when that is smaller."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=BATCH_IDS[codec], batch_size=1 << 24)
    for s in samples:
        assert builder.append(timestamp=s.timestamp_ms, key=s.key, value=s.value, headers=list(s.headers)) is not None
    builder.close()
    return bytes(builder.buffer())


def write_batches(connection: Connection, topic: str, batches: Sequence[Sequence[Sample]], codec: str = "none") -> list[Sample]:
    """Append each element as a batch of its own to partition 0, and return all records in order."""
    for samples in batches:
        response = produce(connection, 7, topic, sample_batch(samples, codec))  # the first version that may carry zstd
        assert response.error == 0, response
    return [s for samples in batches for s in samples]
