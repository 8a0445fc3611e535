"""A record of `__transaction_state` that cannot be decoded costs no other transactional id anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.log.results import AppendOrigin
from pybroker.model import Offset, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from testing.scenes.api.whole import NOW_MS, Whole
from tests.api.transactions import Producer, broker

NONE = ErrorCode.NONE


def append(whole: Whole, key: bytes, value: bytes | None) -> None:
    """Append a record to both partitions, as any client may."""
    for number in range(2):
        partition = whole.replicas.partition_or_raise(TopicPartition("__transaction_state", number))
        batch = memoryview(build_batch([Record(Offset(0), NOW_MS, key, value)]))
        partition.append_records_to_leader(batch, acks=-1, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"", b""), (b"\x00", None), (b"\x00\x00", b"\x00\x00"), (b"\x00\x00\x00\x01x", b"\x00"),
     (b"\x00\x00\x00\x01\xff", b"\x00\x00"),
     (b"\x00\x00\x00\x01x", b"\x00\x00" + bytes(14) + b"\x63" + bytes(20))],  # an unknown status
)  # fmt: skip
async def test_other_transactions_continue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: bytes, value: bytes | None
) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole)
    assert await producer.init() == NONE
    assert await producer.add(0) == [NONE]
    append(whole, key, value)
    assert await producer.send(0, b"a") == NONE
    whole.serve()
    assert await producer.end(commit=True) == NONE
    assert "cannot be decoded" in caplog.text
