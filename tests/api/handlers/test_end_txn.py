"""EndTxn commits or aborts, for the producer's connection or another."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.network.context import ConnectionContext
from tests.api.transactions import NONE, VERSIONS, Producer, broker, fetched, opened


@VERSIONS
@pytest.mark.parametrize("commit", [True, False])
async def test_the_end_of_a_transaction_moves_the_last_stable_offset(tmp_path: Path, version: int, commit: bool) -> None:
    whole = await broker(tmp_path)
    producer = await opened(whole, version, b"a", b"b")
    for partition in (0, 1):
        values, data = await fetched(whole, partition, committed=True)
        assert (values, data.last_stable_offset, data.high_watermark) == ([], 0, 2)
    assert await producer.end(commit=commit) == NONE
    for partition in (0, 1):
        _, data = await fetched(whole, partition, committed=True)
        assert (data.last_stable_offset, data.high_watermark) == (3, 3)
        aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
        assert aborted == ([] if commit else [(0, 0)])


@VERSIONS
async def test_the_next_transaction_of_version_2_has_another_epoch(tmp_path: Path, version: int) -> None:
    whole = await broker(tmp_path)
    producer = await opened(whole, version, b"a")
    for expected in (1, 2, 3):
        assert await producer.end(commit=expected % 2 == 0) == NONE
        assert producer.epoch == (expected if version == 2 else 0)
        if version == 1:
            await producer.add(0)
        assert await producer.send(0, b"more") == NONE


async def test_a_deleted_partition_does_not_hold_up_the_end_and_its_successor_gets_no_marker(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = await opened(whole, 1, b"a")
    await whole.controller.delete_topics([whole.controller.image.topics["t"].topic_id])
    await whole.create("t", 2)
    assert await producer.end(commit=True) == NONE
    _, data = await fetched(whole, 0, committed=True)
    assert data.high_watermark == 0
    assert await producer.init() == NONE


@VERSIONS
@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("commit", [True, False])
async def test_another_connection_ends_a_transaction_by_producer_id_and_epoch_alone(
    tmp_path: Path, version: int, is_restarted: bool, commit: bool
) -> None:
    """Flink resumes a transaction of a process that was killed like this: it sends no InitProducerId before the EndTxn."""
    whole = await broker(tmp_path)
    killed = await opened(whole, version, b"a")
    if is_restarted:
        whole.serve()
    whole.connection = ConnectionContext(connection_id=2, local_host="127.0.0.1", local_port=9092)
    resumed = Producer(whole, version)
    resumed.producer_id, resumed.epoch = killed.producer_id, killed.epoch
    assert await resumed.end(commit=commit) == NONE
    for partition in (0, 1):
        _, data = await fetched(whole, partition, committed=True)
        assert (data.last_stable_offset, len(data.aborted_transactions or ())) == (2, 0 if commit else 1)
    # It may be sent again, because its response may be lost; the other end is refused.
    resumed.producer_id, resumed.epoch = killed.producer_id, killed.epoch
    assert await resumed.end(commit=not commit) != NONE
    assert await resumed.end(commit=commit) == NONE
