"""Control batches: records that the broker writes for itself. They take offsets, and readers skip them.

A control batch holds one record. Its key gives the record's type; the layout of the value depends on that.

| key     | type  |                                                              |
|---------|-------|--------------------------------------------------------------|
| version | int16 | 0; a newer version only adds fields, so it is read like 0    |
| type    | int16 | `ControlType`; an unknown type is to be ignored              |

| value of an end-of-transaction marker | type  |                                             |
|---------------------------------------|-------|---------------------------------------------|
| version                               | int16 | 0                                           |
| coordinator epoch                     | int32 | fences markers of an earlier coordinator    |

Source: KIP-98; `ControlRecordType`, `EndTransactionMarker`.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from pybroker.model import FIRST_OFFSET, NO_LEADER_EPOCH, CoordinatorEpoch, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.records.batch import BatchView, Record
from pybroker.records.build import build_batch
from pybroker.records.errors import InvalidRecordError

_KEY: Final = struct.Struct(">hh")
_MARKER: Final = struct.Struct(">hi")
assert (_KEY.size, _MARKER.size) == (4, 6)


class ControlType(IntEnum):
    """The type of a control record."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class TransactionMarker(NamedTuple):
    """The end of a transaction of one producer in one partition."""

    control_type: ControlType
    coordinator_epoch: CoordinatorEpoch


def control_type_of(key: bytes | None) -> ControlType:
    """Return the type of a control record with this key. Raises InvalidRecordError if the key is not a control record's."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecordError(f"a control record has a key of {len(key or b'')} bytes")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(f"a control record has the unknown version {version}")
    try:
        return ControlType(control_type)
    except ValueError:
        return ControlType.UNKNOWN


def control_type(batch: BatchView) -> ControlType:
    """Return the type of the control batch's record. Raises InvalidRecordError if the batch holds no control record."""
    for record in batch.records():
        return control_type_of(record.key)
    raise InvalidRecordError("a control batch has no record")


def transaction_marker(record: Record) -> TransactionMarker:
    """Return the marker in a COMMIT or ABORT record. Raises InvalidRecordError for every other record."""
    kind = control_type_of(record.key)
    if kind not in {ControlType.COMMIT, ControlType.ABORT}:
        raise InvalidRecordError(f"a control record has the type {kind.name}, not that of a transaction's end")
    if record.value is None or len(record.value) < _MARKER.size:
        raise InvalidRecordError("a transaction marker is truncated")
    version, coordinator_epoch = _MARKER.unpack_from(record.value)
    if version < 0:
        raise InvalidRecordError(f"a transaction marker has the unknown version {version}")
    return TransactionMarker(kind, CoordinatorEpoch(coordinator_epoch))


def build_transaction_marker(
    marker: TransactionMarker,
    *,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    timestamp_ms: int,
    offset: Offset = FIRST_OFFSET,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
) -> bytearray:
    """Build the control batch that ends a transaction. The bytes are the caller's."""
    key = _KEY.pack(0, marker.control_type)
    value = _MARKER.pack(0, marker.coordinator_epoch)
    return build_batch(
        [Record(offset, timestamp_ms, key, value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        leader_epoch=leader_epoch,
    )
