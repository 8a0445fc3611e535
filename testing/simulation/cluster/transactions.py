"""A transactional producer of a history, and what must be true of its transactions.

A transaction writes to several partitions, and mostly commits an offset of a group. Its producer tries each step again until it
is fenced, by another instance or because the transaction took too long. Then it begins again with a new epoch. All instances have
the same transactional id, so one transaction is open at a time, and they end in the order of their numbers.

T1    a transaction whose commit was acknowledged is in each of its partitions, once, and its group has its offset or a later one
T2    nothing of a transaction that was not to be committed is ever committed
T3    of any other transaction all or nothing is committed
T4    a reader of what is committed got exactly that, in order
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pybroker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Offset
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pybroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pybroker.protocol.messages.end_txn import EndTxnRequest
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pybroker.records.batch import Record, batches
from pybroker.records.build import build_batch
from testing.simulation.cluster.clients import PAUSE_S, RETRIED, TIMEOUT_MS, Client
from testing.simulation.cluster.model import Sent, Transaction

if TYPE_CHECKING:
    from testing.simulation.cluster.cluster import Cluster
    from testing.simulation.cluster.model import Model

TRANSACTIONAL_ID: Final = "transactor"
GROUP: Final = "transacted"
TRANSACTION_MS: Final = 4_000
_OF_GROUP: Final = 0
_OF_TRANSACTIONS: Final = 1
_RETRIED: Final = RETRIED | {ErrorCode.CONCURRENT_TRANSACTIONS}
_FENCED: Final = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
}


class _FencedError(Exception):
    """The producer must begin again with a new epoch."""


class Transactor(Client):
    """An instance of the producer. Its records are those of `name`, and its numbers those of all instances."""

    def __init__(self, cluster: Cluster, model: Model, name: str) -> None:
        super().__init__(cluster, model, name)
        self._producer_id, self._epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        self._coordinators: dict[int, int] = {}
        self._sequences: dict[int, int] = {}

    async def transact(self, topic: str, partitions: int, count: int, *, pause_s: float) -> None:
        """Carry out `count` transactions, of which some are aborted."""
        random = self.cluster.random
        for _ in range(count):
            if self.is_over:
                return
            try:
                if self._producer_id < 0:
                    await self._begin()
                await self._transaction(topic, partitions, is_committed=random.random() < 0.7, has_offset=random.random() < 0.7)
            except _FencedError:
                self._producer_id = NO_PRODUCER_ID
            await asyncio.sleep(pause_s)

    async def end(self) -> None:
        """End what any instance has left open."""
        await self._begin()

    async def _begin(self) -> None:
        request = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=TRANSACTION_MS)
        while not self.is_over:
            response = await self._ask(_OF_TRANSACTIONS, request, 4, lambda response: response.error_code)
            if response is not None:
                self._producer_id, self._epoch = response.producer_id, response.producer_epoch
                self._sequences.clear()
                return

    async def _transaction(self, topic: str, partitions: int, *, is_committed: bool, has_offset: bool) -> None:
        model = self.model
        producer: dict[str, Any] = {"producer_id": self._producer_id, "producer_epoch": self._epoch}
        number = len(model.transactions)
        values = {partition: b"%s-%d-%d" % (self.name.encode(), number, partition) for partition in range(partitions)}
        transaction = Transaction(values, has_offset=has_offset)
        model.transactions.append(transaction)
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(values))],
        )
        await self._must(
            _OF_TRANSACTIONS,
            added,
            3,
            lambda response: max(
                one.partition_error_code for one in response.results_by_topic_v3_and_below[0].results_by_partition
            ),
        )
        for partition, value in values.items():
            await self._write(topic, partition, value, number)
        if has_offset:
            to_add = AddOffsetsToTxnRequest(transactional_id=TRANSACTIONAL_ID, group_id=GROUP, **producer)
            await self._must(_OF_TRANSACTIONS, to_add, 3, lambda response: response.error_code)
            offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=number, committed_metadata=None)
            offsets = TxnOffsetCommitRequest(
                transactional_id=TRANSACTIONAL_ID,
                group_id=GROUP,
                topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[offset])],
                **producer,
            )
            await self._must(_OF_GROUP, offsets, 3, lambda response: response.topics[0].partitions[0].error_code)
        if self.is_over:
            return
        transaction.is_to_be_committed = is_committed
        end = EndTxnRequest(transactional_id=TRANSACTIONAL_ID, committed=is_committed, **producer)
        await self._must(_OF_TRANSACTIONS, end, 3, lambda response: response.error_code)
        transaction.is_acknowledged = not self.is_over

    async def _write(self, topic: str, partition: int, value: bytes, number: int) -> None:
        model = self.model.of(topic, partition)
        model.sent[value] = Sent(self.name, number)
        model.without_order.add(self.name)
        batch = build_batch(
            [Record(Offset(0), self.cluster.clock.time_ms(), None, value)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences.get(partition, 0),
            is_transactional=True,
        )
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=bytes(batch))])
        request = ProduceRequest(transactional_id=TRANSACTIONAL_ID, acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[data])
        while not self.is_over:
            broker_id, _ = await self.leader(topic, partition)
            response = await self.ask(broker_id, request, 9)
            if response is not None:
                code = response.responses[0].partition_responses[0].error_code
                if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER or not self._is_again("a batch of a transaction", code):
                    self._sequences[partition] = self._sequences.get(partition, 0) + 1
                    return
            self.forget_leader(topic, partition)
            await asyncio.sleep(PAUSE_S)

    async def _must(self, of: int, request: Any, version: int, code_of: Any) -> None:
        while not self.is_over:
            if await self._ask(of, request, version, code_of) is not None:
                return

    async def _ask(self, of: int, request: Any, version: int, code_of: Any) -> Any:
        """Ask a coordinator once; return its response if that has no error. Raises _FencedError."""
        if of not in self._coordinators:
            found = await self.coordinator(of, TRANSACTIONAL_ID if of == _OF_TRANSACTIONS else GROUP)
            if found is None:
                return None
            self._coordinators[of] = found
        response = await self.ask(self._coordinators[of], request, version)
        if response is None or self._is_again(type(request).__name__, code_of(response)):
            self._coordinators.pop(of)
            await asyncio.sleep(PAUSE_S)
            return None
        return response

    def _is_again(self, what: str, code: int) -> bool:
        if code in _FENCED:
            raise _FencedError
        return code in _RETRIED or self.is_retried(what, code)


def committed(log: bytes) -> list[tuple[int, bytes]]:
    """Return the offsets and values of a log's records without those of transactions that were aborted or are open."""
    found: list[tuple[int, bytes]] = []
    open_: dict[int, list[tuple[int, bytes]]] = {}
    for batch in batches(memoryview(log)):
        if batch.is_control:
            (marker,) = batch.records()
            written = open_.pop(batch.producer_id, [])
            found += written if marker.key is not None and marker.key[3] == 1 else []
        else:
            records = [(record.offset, record.value or b"") for record in batch.records()]
            if batch.is_transactional:
                open_.setdefault(batch.producer_id, []).extend(records)
            else:
                found += records
    return sorted(found)


def wrong_transactions(model: Model, logs: dict[int, bytes], offset: int) -> Iterator[str]:
    """Yield what is wrong, with the logs of the partitions, and the offset that the group has at last."""
    there = {partition: {value for _, value in committed(log)} for partition, log in logs.items()}
    last = -1
    for number, one in enumerate(model.transactions):
        having = [partition for partition, value in one.values.items() if value in there[partition]]
        if one.is_to_be_committed and one.is_acknowledged and len(having) < len(one.values):
            yield f"T1: transaction {number} was committed, and is in the partitions {having}"
        elif not one.is_to_be_committed and having:
            yield f"T2: transaction {number} was not to be committed, and is in the partitions {having}"
        elif 0 < len(having) < len(one.values):
            yield f"T3: transaction {number} is in the partitions {having} only"
        if having and one.has_offset:
            last = number
    if offset != last:
        yield f"T1: the last transaction with an offset that is committed is {last}, and the group has {offset}"


def wrongly_read(model: Model, logs: dict[int, bytes]) -> Iterator[str]:
    """Yield what readers of committed records got wrongly."""
    for partition, (position, got) in model.committed_reads.items():
        expected = [one for one in committed(logs[partition]) if one[0] < position]
        if got != expected:
            wrong = sorted({*got} ^ {*expected})[:6]
            yield f"T4: a reader of what is committed in partition {partition} up to {position} differs from the log at {wrong}"
