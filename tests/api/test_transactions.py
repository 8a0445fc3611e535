"""Transactions through the handlers: what producers get, and what consumers see."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pybroker.model import ProducerEpoch
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest
from testing.scenes.api.whole import Whole
from tests.api.transactions import NONE, TID, VERSIONS, Producer, broker, fetched, opened

DAY_MS = 86_400_000


@VERSIONS
async def test_a_second_instance_fences_the_first_and_aborts_its_transaction(tmp_path: Path, version: int) -> None:
    whole = await broker(tmp_path)
    first = await opened(whole, version, b"a")
    second = Producer(whole, version)
    assert await second.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert await second.init() == NONE
    assert (second.producer_id, second.epoch) == (first.producer_id, 2)
    assert await first.end(commit=True) == ErrorCode.PRODUCER_FENCED
    assert await first.send(0, b"zombie") == ErrorCode.INVALID_PRODUCER_EPOCH
    _, data = await fetched(whole, 0, committed=True)
    assert data.last_stable_offset == data.high_watermark == 2


@VERSIONS
async def test_a_transaction_that_is_open_too_long_is_aborted(tmp_path: Path, version: int) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole, version)
    await producer.init(timeout_ms=5_000)
    if version == 1:
        await producer.add(0)
    assert await producer.send(0, b"a") == NONE
    whole.pass_time(4_000)
    _, data = await fetched(whole, 0, committed=True)
    assert data.last_stable_offset == 0
    whole.pass_time(3_000)
    _, data = await fetched(whole, 0, committed=True)
    assert data.last_stable_offset == data.high_watermark == 2
    expected = ErrorCode.INVALID_TXN_STATE if version == 2 else ErrorCode.PRODUCER_FENCED
    assert await producer.end(commit=True) == expected


@VERSIONS
@pytest.mark.parametrize("commit", [True, False])
async def test_a_decided_end_is_finished_after_a_restart(
    tmp_path: Path, version: int, commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await broker(tmp_path)
    producer = await opened(whole, version, b"a")
    with monkeypatch.context() as patch:
        patch.setattr(whole.transactions.markers, "_add", lambda *_: None)  # the process ends before the markers
        assert await producer.end(commit=commit) == NONE
    _, data = await fetched(whole, 0, committed=True)
    assert data.last_stable_offset == 0
    whole.serve()
    for partition in (0, 1):
        _, data = await fetched(whole, partition, committed=True)
        assert data.last_stable_offset == data.high_watermark == 2
        assert len(data.aborted_transactions or ()) == (0 if commit else 1)
    if version == 1:
        await producer.add(0)
    assert await producer.send(0, b"next") == NONE


async def test_an_open_transaction_times_out_after_a_restart_too(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await opened(whole, 1, b"a")
    whole.serve()
    whole.pass_time(62_000)
    _, data = await fetched(whole, 0, committed=True)
    assert data.last_stable_offset == data.high_watermark == 2


async def last_stable(whole: Whole) -> int:
    _, data = await fetched(whole, 0, committed=True)
    return data.last_stable_offset


async def test_a_transaction_of_before_a_start_is_aborted_soon_after_the_clock_that_was_behind_is_right(tmp_path: Path) -> None:
    """Kafka looks every 10 s, too."""
    whole = await broker(tmp_path)
    await opened(whole, 1, b"a")
    whole.clock.jump(-3 * DAY_MS)
    whole.serve()
    whole.pass_time(3_000)
    whole.clock.jump(3 * DAY_MS + 60_000)
    whole.pass_time(6_000)
    assert await last_stable(whole) == 0
    whole.pass_time(2_000)
    assert await last_stable(whole) == 2


@pytest.mark.parametrize("jump_ms", [-3 * DAY_MS, 3 * DAY_MS], ids=["set back", "set ahead"])
@pytest.mark.parametrize("is_before_the_start", [True, False])
async def test_a_transaction_is_open_no_longer_than_its_timeout_by_a_clock_that_is_set(
    tmp_path: Path, jump_ms: int, is_before_the_start: bool
) -> None:
    whole = await broker(tmp_path)
    await opened(whole, 1, b"a")
    whole.clock.jump(jump_ms)
    if is_before_the_start:
        whole.serve()
    whole.pass_time(62_000)
    assert await last_stable(whole) == 2


async def test_a_transaction_is_not_aborted_before_its_time_because_the_clock_is_set_ahead(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = await opened(whole, 1, b"a")
    whole.clock.jump(3 * DAY_MS)
    whole.pass_time(30_000)
    assert await producer.end(commit=True) == NONE


async def test_the_epochs_of_a_producer_id_are_used_up(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = await opened(whole, 2, b"a")
    old = producer.producer_id
    (shard,) = [one for one in whole.transactions.runtime.shards if TID in one.transactions]
    assert await producer.end(commit=True) == NONE
    shard.transactions[TID] = shard.transactions[TID]._replace(epoch=ProducerEpoch(32766))
    producer.epoch = 32766
    assert await producer.send(0, b"b") == NONE
    assert await producer.end(commit=True) == NONE
    assert (producer.producer_id > old, producer.epoch) == (True, 0)
    assert await producer.send(0, b"c") == NONE
    assert await producer.end(commit=True) == NONE
    _, data = await fetched(whole, 0, committed=True)
    assert data.last_stable_offset == data.high_watermark == 6


@pytest.mark.parametrize("timeout_ms", [0, 900_001])
async def test_a_timeout_beyond_the_limit_is_refused(tmp_path: Path, timeout_ms: int) -> None:
    whole = await broker(tmp_path)
    assert await Producer(whole).init(timeout_ms=timeout_ms) == ErrorCode.INVALID_TRANSACTION_TIMEOUT


async def test_a_batch_behind_one_that_was_refused_is_refused_too(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole, 2)
    assert await producer.init() == NONE
    assert await producer.send(1, b"a") == NONE
    producer.sequences[0] = 1  # the first batch got CONCURRENT_TRANSACTIONS, and its response is on the way
    assert await producer.send(0, b"second") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.sequences[0] = 0
    assert [await producer.send(0, value) for value in (b"first", b"second")] == [NONE, NONE]
    assert await producer.end(commit=True) == NONE
    assert (await fetched(whole, 0, committed=True))[0][:2] == [b"first", b"second"]


async def test_a_producer_that_begins_again_in_an_open_transaction_keeps_its_id(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole)
    assert await producer.init() == NONE
    assert await producer.add(0) == [NONE]
    request = InitProducerIdRequest(
        transactional_id=TID,
        transaction_timeout_ms=60_000,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
    )
    first = await whole.ask(request, 5)
    assert first.error_code == ErrorCode.CONCURRENT_TRANSACTIONS, "the open transaction is aborted first"
    again = await whole.ask(request, 5)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (NONE, producer.producer_id, producer.epoch + 1)


async def test_a_timeout_and_the_end_of_an_id_are_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    whole = await broker(tmp_path, transactional_id_expiration_ms=100_000)
    producer = Producer(whole)
    assert await producer.init(timeout_ms=5_000) == NONE
    assert await producer.add(0) == [NONE]
    whole.pass_time(6_000)
    assert (
        f"Transaction of {TID} (producer 0, epoch 0) is aborted: it was open for more than its timeout of 5000 ms" in caplog.text
    )
    whole.pass_time(2 * 3_600_000)
    assert f"Transactional id {TID} is removed: no producer has used it for " in caplog.text
