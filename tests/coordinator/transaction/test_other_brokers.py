"""Transactions over several brokers: markers for partitions that others lead, and coordinators that are elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pybroker.coordinator.transaction.state import State
from pybroker.metadata.members import BrokerRegistration
from pybroker.model import BrokerId, GroupId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from pybroker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from testing.scenes.api.whole import Whole
from testing.scenes.members import add_live_broker, elect
from testing.waiting import turned_until
from tests.api.offset_transactions import GROUP, OffsetProducer
from tests.api.transactions import Producer, broker

NONE = ErrorCode.NONE
OTHER, THIRD = BrokerId(2), BrokerId(3)
REMOTE = TopicPartition("t", 1)


class OtherBrokers:
    """Takes the requests to other brokers, for the test to respond."""

    def __init__(self) -> None:
        self.sent: list[tuple[BrokerId, Any, Callable[[Any | None], object]]] = []

    def send(
        self, broker_id: BrokerId, request: Any, done: Callable[[Any | None], object], *, lane: str = "", timeout_ms: int = 0
    ) -> None:
        assert lane
        assert timeout_ms
        self.sent.append((broker_id, request, done))

    def close(self) -> None:
        pass

    def take(self) -> tuple[BrokerId, Any, Callable[[Any | None], object]]:
        """Return the only request that waits."""
        (one,) = self.sent
        self.sent.clear()
        return one

    def respond(self, code: ErrorCode | None) -> WriteTxnMarkersRequest:
        """Give each marker of the only request the code, or send no response."""
        _, request, done = self.take()
        done(None if code is None else results(request, code))
        assert isinstance(request, WriteTxnMarkersRequest)
        return request


def results(request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=one.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=number, error_code=code)
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in one.topics
                ],
            )
            for one in request.markers
        ]
    )


async def cluster(folder: Path) -> tuple[Whole, OtherBrokers]:
    """Return broker 1 of a cluster in which broker 2 leads the partition 1 of the topic."""
    whole, others = await broker(folder), OtherBrokers()
    whole.peers = others
    whole.serve()
    for broker_id in (OTHER, THIRD):
        await add_live_broker(whole.controller, BrokerRegistration(broker_id=broker_id, endpoints={}))
    await elect(whole.controller, REMOTE, OTHER)
    return whole, others


async def opened(whole: Whole, tid: str = "t-1", partitions: tuple[int, ...] = (0, 1)) -> Producer:
    """Return a producer with an open transaction, which has a record in the partition of this broker if it has that one."""
    producer = Producer(whole, 1, tid)
    assert await producer.init() == NONE
    assert await producer.add(*partitions) == [NONE] * len(partitions)
    if 0 in partitions:
        assert await producer.send(0, b"a") == NONE
    return producer


def state(whole: Whole, producer: Producer) -> State:
    (found,) = [s.transactions[producer.tid].state for s in whole.transactions.runtime.shards if producer.tid in s.transactions]
    return found


def is_open(whole: Whole, number: int) -> bool:
    return bool(whole.replicas.partition_or_raise(TopicPartition("t", number)).log.producers.ongoing)


@pytest.mark.parametrize("commit", [True, False])
async def test_the_leader_of_a_partition_gets_its_marker(tmp_path: Path, commit: bool) -> None:
    whole, others = await cluster(tmp_path)
    producer = await opened(whole)
    assert await producer.end(commit=commit) == NONE
    assert not is_open(whole, 0)
    assert state(whole, producer) is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT)
    (shard,) = [shard for shard in whole.transactions.runtime.shards if shard.transactions]
    (one,) = others.respond(NONE).markers
    assert one == WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[1])],
        coordinator_epoch=shard.coordinator_epoch,
        transaction_version=one.transaction_version,
    )
    assert state(whole, producer) is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)


@pytest.mark.parametrize(
    "code", [None, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_ENOUGH_REPLICAS]
)
async def test_a_marker_is_sent_again_to_the_leader_of_then(tmp_path: Path, code: ErrorCode | None) -> None:
    whole, others = await cluster(tmp_path)
    producer = await opened(whole)
    await producer.end(commit=True)
    others.respond(code)
    assert not others.sent
    await elect(whole.controller, REMOTE, THIRD)
    whole.pass_time(200)
    assert [broker_id for broker_id, _, _ in others.sent] == [THIRD]
    others.respond(code)
    await elect(whole.controller, REMOTE, 1)
    whole.pass_time(1_000)
    assert not others.sent
    assert state(whole, producer) is State.COMPLETE_COMMIT


async def test_a_partition_without_a_live_leader_gets_its_marker_later(tmp_path: Path) -> None:
    whole, others = await cluster(tmp_path)
    producer = await opened(whole)
    await elect(whole.controller, REMOTE, -1)
    await producer.end(commit=True)
    assert not others.sent
    await elect(whole.controller, REMOTE, OTHER)
    whole.pass_time(200)
    others.respond(NONE)
    assert state(whole, producer) is State.COMPLETE_COMMIT


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
async def test_a_later_producer_or_coordinator_at_another_broker_fences(tmp_path: Path, code: ErrorCode) -> None:
    whole, others = await cluster(tmp_path)
    producer = await opened(whole)
    await producer.end(commit=True)
    others.respond(code)
    whole.pass_time(10_000)
    assert not others.sent
    assert state(whole, producer) is State.PREPARE_COMMIT


async def test_markers_that_come_while_a_request_is_under_way_share_the_next_one(tmp_path: Path) -> None:
    whole, others = await cluster(tmp_path)
    producers = [await opened(whole, f"t-{number}", (1,)) for number in range(5)]
    for producer in producers:
        await producer.end(commit=True)
    assert len(others.respond(NONE).markers) == 1
    assert {one.producer_id for one in others.respond(NONE).markers} == {one.producer_id for one in producers[1:]}
    assert {state(whole, one) for one in producers} == {State.COMPLETE_COMMIT}


async def test_a_marker_that_waits_for_a_deleted_topic_is_not_sent(tmp_path: Path) -> None:
    whole, others = await cluster(tmp_path)
    first, second = [await opened(whole, f"t-{number}", (1,)) for number in range(2)]
    for producer in (first, second):
        await producer.end(commit=True)
    await whole.controller.delete_topics([whole.controller.image.topics["t"].topic_id])
    assert state(whole, second) is State.COMPLETE_COMMIT
    others.respond(NONE)
    assert not others.sent
    assert state(whole, first) is State.COMPLETE_COMMIT


async def test_a_replica_that_does_not_lead_refuses_a_marker_whatever_it_knows(tmp_path: Path) -> None:
    whole, _ = await cluster(tmp_path)
    marker = WritableTxnMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[1])],
        coordinator_epoch=0,
        transaction_version=2,
    )
    response = await whole.ask(WriteTxnMarkersRequest(markers=[marker]), 2)
    assert response.markers[0].topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# Coordinators on other brokers


async def coordinated_elsewhere(folder: Path, version: int) -> tuple[Whole, OtherBrokers, Producer]:
    """Return a broker that does not coordinate the id of a producer, which it has started as the coordinator of before."""
    whole, others = await cluster(folder)
    producer = Producer(whole, version)
    assert await producer.init() == NONE
    for number in range(whole.transactions.topic.partition_count):
        await elect(whole.controller, TopicPartition("__transaction_state", number), OTHER)
    return whole, others, producer


def verified(request: AddPartitionsToTxnRequest, code: ErrorCode) -> AddPartitionsToTxnResponse:
    (one,) = request.transactions
    topics = [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
                for number in topic.partitions
            ],
        )
        for topic in one.topics
    ]
    result = AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=topics)
    return AddPartitionsToTxnResponse(results_by_transaction=[result])


@pytest.mark.parametrize(
    ("version", "code", "expected"),
    [
        (1, ErrorCode.NONE, ErrorCode.NONE),
        (2, ErrorCode.NONE, ErrorCode.NONE),
        (1, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (2, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_ENOUGH_REPLICAS),
        (2, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (2, None, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
async def test_a_coordinator_that_is_elsewhere_is_asked(
    tmp_path: Path, version: int, code: ErrorCode | None, expected: ErrorCode
) -> None:
    _, others, producer = await coordinated_elsewhere(tmp_path, version)
    sending = asyncio.ensure_future(producer.send(0, b"a"))
    await turned_until(lambda: others.sent, "the coordinator is asked")
    broker_id, request, done = others.take()
    (one,) = request.transactions
    assert (broker_id, one.transactional_id, one.verify_only) == (OTHER, producer.tid, version == 1)
    assert (one.producer_id, one.producer_epoch) == (producer.producer_id, producer.epoch)
    assert [(topic.name, topic.partitions) for topic in one.topics] == [("t", [0])]
    done(None if code is None else verified(request, code))
    assert await sending == expected
    if expected is NONE:
        assert await producer.send(0, b"b") == NONE
        assert not others.sent, "the log has the open transaction"


async def test_the_broker_of_a_group_asks_the_coordinator_elsewhere(tmp_path: Path) -> None:
    whole, others = await cluster(tmp_path)
    producer = OffsetProducer(whole, 2)
    assert await producer.init() == NONE
    assert await producer.open_offsets() == NONE
    await elect(whole.controller, whole.groups.topic_partition(GroupId(GROUP)), 1)
    for number in range(whole.transactions.topic.partition_count):
        await elect(whole.controller, TopicPartition("__transaction_state", number), OTHER)
    committing = asyncio.ensure_future(producer.commit(5))
    await turned_until(lambda: others.sent, "the coordinator is asked")
    _, request, done = others.take()
    done(verified(request, ErrorCode.NONE))
    assert await committing == [NONE]
