"""Writes records as a KRaft snapshot, with which a Kafka begins when its metadata log is empty.

    batch with the control record SNAPSHOT_HEADER    int16 version, int64 timestamp of the last record, no tagged fields
    batches of metadata records
    batch with the control record SNAPSHOT_FOOTER    int16 version, no tagged fields

The offsets in the file count from 0, whatever the offset in its name. Kafka writes `bootstrap.checkpoint` in the same form.

Source: RecordsSnapshotWriter, BatchFileWriter, Snapshots; SnapshotHeaderRecord.json, SnapshotFooterRecord.json.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from pybroker.metadata.kraft.frames import to_bytes
from pybroker.model import LeaderEpoch, Offset
from pybroker.protocol.messages.metadata_records import PartitionRecord
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.records.control import ControlType

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH_BYTES: Final = 256 << 10
"""Records are added to a batch until it has this many bytes; Kafka reads batches of up to 8 MB."""
_VERSIONS: Final[dict[type, int]] = {PartitionRecord: 1}
"""The version of a message where it is not 0. Partitions have directories since version 1 (Kafka 3.7)."""
_KEY: Final = struct.Struct(">hh")
_HEADER: Final = struct.Struct(">hqB")
_FOOTER: Final = struct.Struct(">hB")


def snapshot_name(*, next_offset: Offset, epoch: LeaderEpoch) -> str:
    """Return the name of a snapshot of all records below `next_offset`, the last of which was written in `epoch`."""
    return f"{next_offset:020}-{epoch:010}.checkpoint"


def snapshot(messages: Sequence[object], *, epoch: LeaderEpoch, now_ms: int) -> bytes:
    """Return the file of a snapshot with these messages of `METADATA_RECORDS`. Raises EncodeError."""
    records = [Record(Offset(0), now_ms, _key(ControlType.SNAPSHOT_HEADER), _HEADER.pack(0, now_ms, 0))]
    out = build_batch(records, is_control=True, leader_epoch=epoch)
    records, size = [], 0
    for offset, message in enumerate(messages, start=1):
        value = to_bytes(message, _VERSIONS.get(type(message), 0))
        if records and size + len(value) > BATCH_BYTES:
            out += build_batch(records, leader_epoch=epoch)
            records, size = [], 0
        records.append(Record(Offset(offset), now_ms, None, value))
        size += len(value)
    if records:
        out += build_batch(records, leader_epoch=epoch)
    records = [Record(Offset(len(messages) + 1), now_ms, _key(ControlType.SNAPSHOT_FOOTER), _FOOTER.pack(0, 0))]
    return bytes(out + build_batch(records, is_control=True, leader_epoch=epoch))


def _key(control_type: ControlType) -> bytes:
    return _KEY.pack(0, control_type)
