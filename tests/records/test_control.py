"""Control batches against aiokafka and Kafka's layout."""

from __future__ import annotations

import pytest
from aiokafka.record.control_record import COMMIT_MARKER, ControlRecord

from pybroker.model import CoordinatorEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.records.batch import BatchView, Record
from pybroker.records.build import build_batch
from pybroker.records.control import (
    ControlType,
    TransactionMarker,
    build_transaction_marker,
    control_type,
    control_type_of,
    transaction_marker,
)
from pybroker.records.errors import InvalidRecordError


def test_a_marker_is_what_clients_expect() -> None:
    marker = TransactionMarker(ControlType.COMMIT, CoordinatorEpoch(17))
    batch = BatchView(
        memoryview(
            build_transaction_marker(
                marker, producer_id=ProducerId(9), producer_epoch=ProducerEpoch(2), timestamp_ms=5, offset=Offset(40)
            )
        )
    )
    batch.ensure_valid()
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.base_offset, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (40, 9, 2, -1)
    (record,) = batch.records()
    assert (record.key, record.value) == (b"\0\0\0\1", b"\0\0\0\0\0\x11")
    assert ControlRecord.parse(record.key) == COMMIT_MARKER
    assert control_type(batch) is ControlType.COMMIT
    assert transaction_marker(record) == marker


def test_unknown_types_and_newer_versions_are_read() -> None:
    assert control_type_of(b"\0\0\x7f\0") is ControlType.UNKNOWN
    assert control_type_of(b"\0\5\0\0more") is ControlType.ABORT


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_what_is_no_control_key_is_refused(key: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        control_type_of(key)


@pytest.mark.parametrize(
    ("key", "value"), [(b"\0\0\0\2", b"\0" * 6), (b"\0\0\0\0", b"\0" * 5), (b"\0\0\0\0", None), (b"\0\0\0\0", b"\xff" * 6)]
)
def test_what_is_no_marker_is_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        transaction_marker(Record(Offset(0), 0, key, value))


def test_an_empty_control_batch_has_no_meaning() -> None:
    with pytest.raises(InvalidRecordError):
        control_type(BatchView(memoryview(build_batch([], base_offset=Offset(0), last_offset=Offset(0), is_control=True))))
