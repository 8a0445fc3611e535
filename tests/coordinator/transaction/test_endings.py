"""Transactions that end beside others: failures, large records, and which are due."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest import mock

import pytest

from pybroker.coordinator.runtime.appender import BATCH_BYTES
from pybroker.coordinator.transaction import ending, markers
from pybroker.coordinator.transaction.state import State, Transaction
from pybroker.model import ProducerEpoch, ProducerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.sharing.work import run_through
from tests.api.transactions import Producer, broker


async def test_a_failure_at_one_transaction_holds_up_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = await broker(tmp_path)
    first, second = Producer(whole, 2, "first"), Producer(whole, 2, "second")
    for producer in (first, second):
        assert await producer.init() == ErrorCode.NONE
        assert await producer.send(0, b"a") == ErrorCode.NONE
    with mock.patch.object(markers, "build_transaction_marker", side_effect=ZeroDivisionError):
        assert await first.end(commit=True) == ErrorCode.NONE
    assert "Markers cannot be written" in caplog.text
    assert await second.end(commit=True) == ErrorCode.NONE
    assert await second.init() == ErrorCode.NONE
    whole.serve()
    assert await first.init() == ErrorCode.NONE


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError("the store"), ErrorCode.UNKNOWN_SERVER_ERROR), (MemoryError(), ErrorCode.NOT_COORDINATOR)],
    ids=["disk", "shortage"],
)
async def test_an_error_of_the_store_is_the_response_to_the_request_that_needs_an_id(
    tmp_path: Path, error: Exception, code: ErrorCode
) -> None:
    whole = await broker(tmp_path)
    with mock.patch.object(type(whole.controller.producer_ids), "next", side_effect=error):
        assert await asyncio.wait_for(Producer(whole).init(), 10) == code


async def test_a_large_record_has_a_batch_of_its_own(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    shard = next(whole.transactions.runtime.shards)
    many = Transaction(ProducerId(1), ProducerEpoch(0), 1_000, State.ONGOING, frozenset(TopicPartition("t", n) for n in range(5)))
    large = many._replace(partitions=frozenset(TopicPartition(f"{n:0200}", 0) for n in range(3_000)))
    records = [ending.write(shard, "t", one) for one in (*[many] * 3_000, large, many)]
    runtime = whole.transactions.runtime
    active = next(iter(runtime._active.values()))
    batches = run_through(runtime._appender.batches(active, records, is_atomic=False))
    assert not isinstance(batches, ErrorCode)
    sizes = [sum(map(len, ends)) for _, ends in batches]
    assert [record for some, _ in batches for record in some] == records
    assert [size > BATCH_BYTES for size in sizes] == [False, True, False]


async def test_a_transaction_that_began_after_another_was_due_is_not_aborted(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    shard = next(whole.transactions.runtime.shards)
    now_ms = whole.clock.time_ms()
    shard.transactions["t-1"] = Transaction(ProducerId(1), ProducerEpoch(0), 1_000, State.ONGOING, start_ms=now_ms)
    shard.due = {"t-1": now_ms - 1_000}
    assert not ending.abort_due(shard, now_ms).records
    shard.due = {"t-1": now_ms}
    assert len(ending.abort_due(shard, now_ms + 1_000).records) == 1
