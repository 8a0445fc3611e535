"""Transactions with `flush.messages` for `__transaction_state`, on a slow disk: no batch or marker comes before its record."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from testing.scenes.api.records import batch_of_values
from testing.scenes.api.whole import Whole
from testing.scenes.logs import HeldThread
from tests.api.offset_transactions import GROUP, OffsetProducer, committed
from tests.api.transactions import Producer, broker, fetched

NONE = ErrorCode.NONE


def slow(whole: Whole, topic: str = "__transaction_state") -> HeldThread:
    """Let the records of a topic be durable only when the test runs the jobs of the disk."""
    (directory,), thread = whole.logs.directories, HeldThread()
    directory.run_in_thread = thread
    for topic_partition, partition in whole.replicas.partitions.items():
        if topic_partition.topic == topic:
            partition.log.config = dataclasses.replace(partition.log.config, flush_messages=1)
    return thread


async def parked(request: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Send a request, and return the task that waits for its response."""
    task = asyncio.create_task(request)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    return task


def end_offset(whole: Whole, partition: int = 0) -> int:
    return whole.replicas.partition_or_raise(TopicPartition("t", partition)).log.log_end_offset


async def test_a_batch_waits_until_its_partition_is_durably_in_the_transaction(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole, 2)
    assert await producer.init() == NONE
    disk = slow(whole)
    sent = await parked(producer.send(0, b"a", b"b"))
    assert end_offset(whole) == 0
    disk.run_next()
    assert await sent == NONE
    values, data = await fetched(whole, 0, committed=False)
    assert (values, data.last_stable_offset) == ([b"a", b"b"], 0)
    assert await producer.send(0, b"c") == NONE  # the log knows the transaction by now


async def test_a_batch_that_waited_is_refused_if_its_transaction_ended_meanwhile(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole, 1)
    assert await producer.init() == NONE
    assert await producer.add(1) == [NONE]
    disk = slow(whole)
    added = await parked(producer.add(0))
    sent = await parked(producer.send(0, b"late"))
    ended = await parked(producer.end(commit=True))
    disk.run_all()
    assert [await added, await ended, await sent] == [[NONE], NONE, ErrorCode.INVALID_TXN_STATE]
    disk.run_all()
    _, data = await fetched(whole, 0, committed=True)
    assert data.last_stable_offset == data.high_watermark == 1  # the marker alone


async def test_markers_wait_until_the_decision_is_durable(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole, 2)
    assert await producer.init() == NONE
    assert await producer.send(0, b"a") == NONE
    disk = slow(whole)
    ended = await parked(producer.end(commit=True))
    assert end_offset(whole) == 1
    disk.run_next()
    assert await ended == NONE
    assert end_offset(whole) == 2


async def test_the_end_is_complete_when_the_marker_of_the_offsets_is_durable(tmp_path: Path) -> None:
    whole = await broker(tmp_path, offsets_topic_num_partitions=1)
    await whole.ask(FindCoordinatorRequest(key=GROUP), 3)
    producer = OffsetProducer(whole, 2)
    assert await producer.init() == NONE
    disk = slow(whole, "__consumer_offsets")
    sent = await parked(producer.commit(7))
    disk.run_next()
    assert await sent == [NONE]
    assert await producer.end(commit=True) == NONE
    assert await producer.init() == ErrorCode.CONCURRENT_TRANSACTIONS  # the marker is not durable yet
    fetch = await parked(committed(whole))
    disk.run_all()
    assert await fetch == [7, -1]
    assert await producer.init() == NONE


@pytest.mark.parametrize("version", [1, 2])
async def test_a_start_names_a_transaction_whose_decision_is_lost(
    tmp_path: Path, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    whole = await broker(tmp_path, transaction_state_log_num_partitions=1)
    producer = Producer(whole, version)
    assert await producer.init() == NONE
    for _ in range(2):
        whole.pass_time(1_000)
        assert await producer.add(0, 1) == [NONE, NONE]
        assert await producer.send(0, b"a") == NONE
        whole.serve()
        assert "lost the decision" not in caplog.text
        log = whole.replicas.partition_or_raise(TopicPartition("__transaction_state", 0)).log
        before = log.log_end_offset
        whole.pass_time(1_000)
        assert await producer.end(commit=True) == NONE
    log.truncate_to(before)
    whole.serve()
    assert "is open, but the machine has lost the decision that ended it: t-0, t-1 had the marker" in caplog.text


async def test_a_batch_that_waited_does_not_go_to_a_new_topic_of_the_name(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole, 2)
    assert await producer.init() == NONE
    disk = slow(whole)
    sent = await parked(producer.send(0, b"late"))
    await whole.controller.delete_topics([whole.controller.image.topics["t"].topic_id])
    await whole.create("t", 2)
    disk.run_all()
    assert await sent == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert end_offset(whole) == 0


async def test_a_batch_that_waited_does_not_go_to_a_topic_that_was_created_meanwhile(tmp_path: Path) -> None:
    """The transaction does not have that partition, so the batch would open a transaction there that never ends."""
    whole = await broker(tmp_path)
    producer = Producer(whole, 2)
    assert await producer.init() == NONE
    disk = slow(whole)
    batch = batch_of_values(
        b"a", producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=0, is_transactional=True
    )
    data = [TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch)]) for name in ("t", "new")]
    sent = await parked(whole.ask(ProduceRequest(transactional_id=producer.tid, acks=-1, timeout_ms=1000, topic_data=data), 12))
    await whole.create("new", 1)
    disk.run_all()
    codes = [topic.partition_responses[0].error_code for topic in (await sent).responses]
    assert codes == [NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert whole.replicas.partition_or_raise(TopicPartition("new", 0)).log.log_end_offset == 0


async def test_offsets_that_waited_do_not_go_to_a_new_offsets_topic(tmp_path: Path) -> None:
    whole = await broker(tmp_path, offsets_topic_num_partitions=1)
    await whole.ask(FindCoordinatorRequest(key=GROUP), 3)
    producer = OffsetProducer(whole, 2)
    assert await producer.init() == NONE
    disk = slow(whole)
    sent = await parked(producer.commit(7))
    await whole.controller.delete_topics([whole.controller.image.topics["__consumer_offsets"].topic_id])
    await whole.ask(FindCoordinatorRequest(key=GROUP), 3)
    disk.run_all()
    assert await sent == [ErrorCode.NOT_COORDINATOR]
    assert whole.replicas.partition_or_raise(TopicPartition("__consumer_offsets", 0)).log.log_end_offset == 0


@pytest.mark.parametrize("is_created_again", [False, True])
async def test_offsets_that_waited_do_not_count_if_their_topic_was_deleted_meanwhile(
    tmp_path: Path, is_created_again: bool
) -> None:
    whole = await broker(tmp_path, offsets_topic_num_partitions=1)
    await whole.ask(FindCoordinatorRequest(key=GROUP), 3)
    producer = OffsetProducer(whole, 2)
    assert await producer.init() == NONE
    disk = slow(whole)
    sent = await parked(producer.commit(7))
    await whole.controller.delete_topics([whole.controller.image.topics["t"].topic_id])
    if is_created_again:
        await whole.create("t", 2)
    disk.run_all()
    assert await sent == [ErrorCode.NOT_COORDINATOR]
    ended = await parked(producer.end(commit=True))
    disk.run_all()
    assert await ended == NONE
    assert await committed(whole) == [-1, -1]
