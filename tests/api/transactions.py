"""A broker with a transactional producer that sends its requests one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pybroker.protocol.messages.end_txn import EndTxnRequest
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from testing.error_codes import error_code
from testing.scenes.api.records import batch_of_values, read
from testing.scenes.api.whole import Whole

TID = "t-1"


async def broker(folder: Path, **config: Any) -> Whole:
    """Start a broker with a topic `t` of two partitions and a transaction coordinator."""
    whole = await Whole(folder, **{"transaction_state_log_num_partitions": 2, **config}).start()
    await whole.create("t", 2)
    await whole.ask(FindCoordinatorRequest(key=TID, key_type=1), 1)
    return whole


class Producer:
    """A transactional producer. `version` is its transaction version, 1 or 2."""

    def __init__(self, whole: Whole, version: int = 1, tid: str = TID) -> None:
        self.whole, self.version, self.tid = whole, version, tid
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[int, int] = {}

    async def init(self, timeout_ms: int = 60_000) -> ErrorCode:
        request = InitProducerIdRequest(transactional_id=self.tid, transaction_timeout_ms=timeout_ms)
        response = await self.whole.ask(request, 5)
        if not response.error_code:
            self.take(response)
        return error_code(response.error_code)

    def take(self, response: Any) -> None:
        self.producer_id, self.epoch, self.sequences = response.producer_id, response.producer_epoch, {}

    async def add(self, *partitions: int, topic: str = "t") -> list[ErrorCode]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.tid,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        response = await self.whole.ask(request, 3)
        (topic_result,) = response.results_by_topic_v3_and_below
        return [error_code(one.partition_error_code) for one in topic_result.results_by_partition]

    async def send(self, partition: int, *values: bytes) -> ErrorCode:
        sequence = self.sequences.get(partition, 0)
        data = batch_of_values(
            *values,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        one = PartitionProduceData(index=partition, records=data)
        request = ProduceRequest(
            transactional_id=self.tid,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name="t", partition_data=[one])],
        )
        response = await self.whole.ask(request, 12 if self.version == 2 else 11)
        code = error_code(response.responses[0].partition_responses[0].error_code)
        if not code:
            self.sequences[partition] = sequence + len(values)
        return code

    async def end(self, *, commit: bool) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.tid, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )
        response = await self.whole.ask(request, 5 if self.version == 2 else 4)
        if not response.error_code and self.version == 2:
            self.take(response)
        return error_code(response.error_code)


async def fetched(whole: Whole, partition: int, *, committed: bool) -> tuple[list[bytes | None], Any]:
    """Return the values of records that a consumer would see, and the partition's response."""
    asked = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_bytes=1 << 20, isolation_level=int(committed), topics=[FetchTopic(topic="t", partitions=[asked])])
    response = await whole.ask(request, 11)
    data = response.responses[0].partitions[0]
    return [value for _, value in read(data.records or b"")], data


NONE = ErrorCode.NONE
VERSIONS = pytest.mark.parametrize("version", [1, 2])


async def opened(whole: Whole, version: int, *values: bytes, partitions: tuple[int, ...] = (0, 1)) -> Producer:
    """Return a producer with an open transaction."""
    producer = Producer(whole, version)
    assert await producer.init() == NONE
    if version == 1:
        assert await producer.add(*partitions) == [NONE] * len(partitions)
    for partition in partitions:
        assert await producer.send(partition, *values) == NONE
    return producer
