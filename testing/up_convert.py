"""Conversion of a whole message set to batches, as the broker does it while it validates and appends."""

from __future__ import annotations

from pybroker.model import NO_LEADER_EPOCH, LeaderEpoch, Offset
from pybroker.records.batch import LOG_APPEND_TIME_BIT
from pybroker.records.build import assemble_batch
from pybroker.records.compression import DECOMPRESSED_BYTES_MAX, compress
from pybroker.records.convert import lift


def up_convert(
    buffer: bytes | bytearray | memoryview,
    *,
    base_offset: int,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
    bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> bytearray:
    """Convert the message set to magic 2 batches with offsets from `base_offset` on; keep codecs, timestamps and their type.

    The caller owns the batches. Raises as `lift` does.
    """
    out = bytearray()
    for lifted in lift(buffer, bytes_max=bytes_max):
        codec = lifted.compression
        out += assemble_batch(
            compress(codec, lifted.section) if codec else lifted.section,
            base_offset=Offset(base_offset),
            last_offset_delta=lifted.record_count - 1,
            attributes=codec | (LOG_APPEND_TIME_BIT if lifted.timestamp_type else 0),
            base_timestamp=lifted.base_timestamp,
            max_timestamp=lifted.max_timestamp,
            record_count=lifted.record_count,
            leader_epoch=leader_epoch,
        )
        base_offset += lifted.record_count
    return out
