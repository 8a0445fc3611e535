"""Commits, and additions to a transaction, of many partitions give the loop back, and no client sees a part of them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pybroker import slicing
from pybroker.api import committed_offsets
from pybroker.api.handlers import add_partitions_to_txn
from pybroker.model import GroupId, TopicId, TopicPartition
from pybroker.protocol import codec
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pybroker.records.batch import batches
from testing.scenes.api.groups import GROUP, commit_request, member
from testing.scenes.api.whole import Whole, frame_of, settled
from testing.turns import run_watched
from testing.waiting import turns_until_done
from tests.api.offset_transactions import OffsetProducer
from tests.api.transactions import broker

MANY = 24_000  # of which the log refuses one batch, when it is made
NONE = ErrorCode.NONE


async def started(folder: Path, partitions: int, **config: Any) -> tuple[Whole, OffsetProducer]:
    """Start a broker whose topic `t` has this many partitions in the metadata, and a producer that may commit offsets."""
    whole = await broker(folder, offsets_topic_num_partitions=1, **config)
    await whole.ask(FindCoordinatorRequest(key=GROUP), 3)
    producer = OffsetProducer(whole, 1)
    assert await producer.init() == NONE
    assert await producer.open_offsets(GROUP) == NONE
    image = whole.controller.image
    topic = image.topics["t"]
    topic = dataclasses.replace(topic, partitions=topic.partitions[:1] * partitions)
    topics, by_id = {**image.topics, "t": topic}, {**image.topics_by_id, topic.topic_id: topic}
    whole.controller.image = dataclasses.replace(image, topics=topics, topics_by_id=by_id)
    return whole, producer


def commit(numbers: Any, text: str = "", **fields: Any) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=one, committed_offset=7, committed_metadata=text) for one in numbers
    ]
    topics = [
        OffsetCommitRequestTopic(name="u", partitions=partitions[:3]),
        OffsetCommitRequestTopic(name="t", partitions=partitions),
        OffsetCommitRequestTopic(name="t", partitions=partitions[:1]),
    ]
    return OffsetCommitRequest(group_id=GROUP, topics=topics, **fields)


def commit_in_transaction(producer: OffsetProducer, numbers: Any, **fields: Any) -> TxnOffsetCommitRequest:
    partitions = [TxnOffsetCommitRequestPartition(partition_index=one, committed_offset=7) for one in numbers]
    values = {"transactional_id": producer.tid, "producer_id": producer.producer_id, "producer_epoch": producer.epoch, **fields}
    return TxnOffsetCommitRequest(group_id=GROUP, topics=[TxnOffsetCommitRequestTopic(name="t", partitions=partitions)], **values)


def addition(producer: OffsetProducer, numbers: Any) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.tid,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(numbers))],
    )


def additions(producer: OffsetProducer, numbers: Any) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic(name=name, partitions=list(numbers)) for name in ("t", "t")]
    ids = [producer.tid, "unknown"]
    values: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "topics": topics}
    return AddPartitionsToTxnRequest(transactions=[AddPartitionsToTxnTransaction(transactional_id=one, **values) for one in ids])


@pytest.mark.judges_time
@pytest.mark.skipif(not codec.IS_NATIVE, reason="to decode and encode such messages in Python takes longer than a turn may")
@pytest.mark.parametrize("kind", ["commit", "commit in transaction"])
def test_a_large_request_gives_the_loop_back(tmp_path: Path, kind: str) -> None:
    async def ask() -> None:
        whole, producer = await started(tmp_path, MANY)
        request, version = {
            "commit": (commit(range(MANY)), 8),
            "commit in transaction": (commit_in_transaction(producer, range(MANY)), 3),
        }[kind]
        frame = frame_of(request, version)
        await asyncio.sleep(0)  # what the client does is no part of the turn
        await settled(whole.dispatcher.handle(whole.connection, frame))

    assert run_watched(ask, limit_ms=50).long_texts("<locals>.ask held") == []  # 20 on a quiet machine


def in_slices(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    whole.call_soon = asyncio.get_running_loop().call_soon
    monkeypatch.setattr(slicing, "SLICE_S", 0.0)
    monkeypatch.setattr(committed_offsets, "LARGE_PARTITIONS", 0)
    monkeypatch.setattr(committed_offsets, "STEP_PARTITIONS", 3)
    monkeypatch.setattr(add_partitions_to_txn, "LARGE_PARTITIONS", 0)
    monkeypatch.setattr(add_partitions_to_txn, "_STEP_PARTITIONS", 3)


def records(whole: Whole) -> list[object]:
    log = whole.replicas.partition_or_raise(TopicPartition("__consumer_offsets", 0)).log
    data = log.read(log.log_start_offset, bytes_max=1 << 22, upper_offset=log.log_end_offset, min_one_batch=True).records
    found = batches(data if isinstance(data, bytes) else data.read(0, data.size))
    return [(one.producer_id, one.is_transactional, [(r.timestamp, r.key, r.value) for r in one.records()]) for one in found]


REQUESTS: dict[str, tuple[Callable[[OffsetProducer], Any], int]] = {
    "commit": (lambda _producer: commit(range(2_000)), 8),
    "some do not exist": (lambda _producer: commit(range(-5, 3_000)), 8),
    "unknown topic ids": (lambda _producer: commit(range(20)), 10),
    "old": (lambda _producer: commit(range(10), retention_time_ms=1000), 2),
    "a text too long": (lambda _producer: commit([5000, *range(10)], "x" * 5000), 8),
    "no member": (lambda _producer: commit(range(5), generation_id_or_member_epoch=1, member_id="m"), 8),
    "transaction": (lambda producer: commit_in_transaction(producer, range(-5, 2_000)), 3),
    "no producer": (lambda producer: commit_in_transaction(producer, range(5), producer_id=-1), 3),
    "fenced": (lambda producer: commit_in_transaction(producer, range(5), producer_epoch=17), 3),
    "too large": (lambda _producer: commit(range(2_000), "x" * 3000), 8),
    "add": (lambda producer: addition(producer, range(2_000)), 3),
    "add what does not exist": (lambda producer: addition(producer, range(1_995, 2_005)), 3),
    "add to several": (lambda producer: additions(producer, range(10)), 4),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_the_response_and_the_records_are_those_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    make, version = REQUESTS[name]
    found = []
    for folder in ("at-once", "in-slices"):
        whole, producer = await started(tmp_path / folder, 2_000)
        if folder == "in-slices":
            in_slices(whole, monkeypatch)
        else:
            monkeypatch.setattr(committed_offsets, "LARGE_PARTITIONS", MANY)
            monkeypatch.setattr(add_partitions_to_txn, "LARGE_PARTITIONS", MANY)
        request = make(producer)
        response = await whole.ask(request, version)
        (shard,) = whole.groups.runtime.shards
        transactions = [one.transactions for one in whole.transactions.runtime.shards]
        pending = list(shard.pending.by_key.items())
        found.append((response, records(whole), shard.offsets, pending, transactions))
    at_once, sliced = found
    assert at_once == sliced


async def test_no_client_sees_a_part_of_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = await started(tmp_path, 2_000)
    in_slices(whole, monkeypatch)
    sent = whole.send(commit(range(2_000)), 8)
    counts: list[int] = []
    while not sent.done():
        await asyncio.sleep(0)
        whole.groups.fetch(GroupId(GROUP), lambda found: len(found.topics.get("t", ())), counts.append)
    assert set(counts) == {0, 2_000}
    assert counts.count(0) > 100, "others had their turns"


async def test_a_large_addition_gives_the_loop_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, producer = await started(tmp_path, 2_000)
    in_slices(whole, monkeypatch)
    request = addition(producer, range(2_000))
    sent = whole.send(request, 3)
    assert await turns_until_done(sent) > 1_000
    (topic,) = whole.read(await sent, request, 3).results_by_topic_v3_and_below
    assert [one.partition_error_code for one in topic.results_by_partition] == [NONE] * 2_000


async def test_a_member_that_leaves_meanwhile_commits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = await started(tmp_path, 2_000)
    member_id = await member(whole)
    in_slices(whole, monkeypatch)
    request = commit(range(2_000), generation_id_or_member_epoch=1, member_id=member_id)
    sent = whole.send(request, 7)
    for _ in range(5):
        await asyncio.sleep(0)
    whole.pass_time(20_000)  # the session ends
    response = whole.read(await sent, request, 7)
    assert {one.error_code for topic in response.topics[1:] for one in topic.partitions} == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert not next(iter(whole.groups.runtime.shards)).offsets


@pytest.mark.parametrize("kind", ["commit", "commit in transaction", "addition"])
async def test_what_is_for_a_topic_that_is_created_again_meanwhile_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    whole, producer = await started(tmp_path, 2_000)
    in_slices(whole, monkeypatch)
    request, version = {
        "commit": (commit(range(2_000)), 8),
        "commit in transaction": (commit_in_transaction(producer, range(2_000)), 3),
        "addition": (addition(producer, range(2_000)), 3),
    }[kind]
    sent = whole.send(request, version)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not sent.done()
    image = whole.controller.image
    topic = dataclasses.replace(image.topics["t"], topic_id=TopicId(bytes(range(16))))
    whole.controller.image = dataclasses.replace(image, topics={**image.topics, "t": topic})
    response = whole.read(await sent, request, version)
    if kind == "addition":
        codes = {one.partition_error_code for one in response.results_by_topic_v3_and_below[0].results_by_partition}
    else:
        codes = {one.error_code for topic in response.topics if topic.name == "t" for one in topic.partitions}
    assert codes == {ErrorCode.CONCURRENT_TRANSACTIONS if kind == "addition" else ErrorCode.NOT_COORDINATOR}
    (shard,) = whole.groups.runtime.shards
    assert (shard.offsets, dict(shard.pending.by_key)) == ({}, {})
    partitions = [one.partitions for other in whole.transactions.runtime.shards for one in other.transactions.values()]
    assert partitions == [frozenset({TopicPartition("__consumer_offsets", 0)})]


async def test_a_small_commit_is_done_at_once(tmp_path: Path) -> None:
    whole, _ = await started(tmp_path, 2_000)
    assert isinstance(whole.send(commit_request(), 8), bytes)
