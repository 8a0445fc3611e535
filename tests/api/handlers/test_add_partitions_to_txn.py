"""AddPartitionsToTxn puts partitions into a transaction, all or none."""

from __future__ import annotations

from pathlib import Path

from pybroker.protocol.error_codes import ErrorCode
from tests.api.transactions import NONE, Producer, broker, fetched


async def test_a_partition_that_was_not_added_takes_no_batch_before_version_2(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole)
    await producer.init()
    assert await producer.add(1) == [NONE]
    assert await producer.send(0, b"a") == ErrorCode.TRANSACTION_ABORTABLE
    assert await producer.send(1, b"a") == NONE
    assert await producer.end(commit=True) == NONE
    assert await producer.send(1, b"late") == ErrorCode.TRANSACTION_ABORTABLE
    _, data = await fetched(whole, 1, committed=True)
    assert data.last_stable_offset == data.high_watermark == 2


async def test_a_missing_partition_keeps_all_partitions_out(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole)
    await producer.init()
    assert await producer.add(0, 7) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await producer.end(commit=True) == ErrorCode.INVALID_TXN_STATE
