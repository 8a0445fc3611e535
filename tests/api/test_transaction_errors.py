"""The table of errors in docs/design/transactions.md: every row, in every version that it names."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pybroker.protocol.codec import message_versions
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pybroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pybroker.protocol.messages.end_txn import EndTxnRequest
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from testing.error_codes import error_code
from testing.scenes.api.records import batch_of_values
from testing.scenes.api.whole import Whole
from tests.api.offset_transactions import GROUP, OffsetProducer
from tests.api.transactions import TID, broker

TABLE = Path(__file__).parents[2] / "docs" / "design" / "transactions.md"
_ROW = re.compile(
    r"^\| (?P<when>[^|]+) \| (?P<api>\w+) \| (?P<first>\d+)(-(?P<last>\d+))? \| (?P<code>[A-Z_]+) \|$", re.MULTILINE
)
KEYS = {"Produce": 0, "InitProducerId": 22, "AddPartitionsToTxn": 24, "AddOffsetsToTxn": 25, "EndTxn": 26, "TxnOffsetCommit": 28}


class Sender(NamedTuple):
    """A client that sends a request: what it believes of itself, and of the end of its transaction."""

    whole: Whole
    producer_id: int = -1
    epoch: int = -1
    tid: str = TID
    commit: bool = True
    timeout_ms: int = 60_000
    partition: int = 0

    async def send(self, api: str, version: int) -> ErrorCode:
        """Send a request, and return the code of the first thing in it."""
        return error_code(await REQUESTS[api](self, version))


Scene = Callable[[Whole, str], Awaitable[Sender]]
"""Lets things happen to a transactional id, and returns the client that sends the request then."""


async def init_producer_id(sender: Sender, version: int) -> int:
    request = InitProducerIdRequest(transactional_id=sender.tid, transaction_timeout_ms=sender.timeout_ms)
    if version >= 3:
        request.producer_id, request.producer_epoch = sender.producer_id, sender.epoch
    return int((await sender.whole.ask(request, version)).error_code)


async def add_partitions_to_txn(sender: Sender, version: int) -> int:
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[sender.partition])]
    if version >= 4:
        one = AddPartitionsToTxnTransaction(
            transactional_id=sender.tid, producer_id=sender.producer_id, producer_epoch=sender.epoch, topics=topics
        )
        (found,) = (await sender.whole.ask(AddPartitionsToTxnRequest(transactions=[one]), version)).results_by_transaction
        return int(found.topic_results[0].results_by_partition[0].partition_error_code)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=sender.tid,
        v3_and_below_producer_id=sender.producer_id,
        v3_and_below_producer_epoch=sender.epoch,
        v3_and_below_topics=topics,
    )
    (topic,) = (await sender.whole.ask(request, version)).results_by_topic_v3_and_below
    return int(topic.results_by_partition[0].partition_error_code)


async def add_offsets_to_txn(sender: Sender, version: int) -> int:
    request = AddOffsetsToTxnRequest(
        transactional_id=sender.tid, producer_id=sender.producer_id, producer_epoch=sender.epoch, group_id=GROUP
    )
    return int((await sender.whole.ask(request, version)).error_code)


async def txn_offset_commit(sender: Sender, version: int) -> int:
    topic_id = sender.whole.controller.image.topics["t"].topic_id if version >= 6 else bytes(16)
    one = TxnOffsetCommitRequestPartition(partition_index=sender.partition, committed_offset=5)
    request = TxnOffsetCommitRequest(
        transactional_id=sender.tid,
        group_id=GROUP,
        producer_id=sender.producer_id,
        producer_epoch=sender.epoch,
        topics=[TxnOffsetCommitRequestTopic(name="t", topic_id=topic_id, partitions=[one])],
    )
    return int((await sender.whole.ask(request, version)).topics[0].partitions[0].error_code)


async def end_txn(sender: Sender, version: int) -> int:
    request = EndTxnRequest(
        transactional_id=sender.tid, producer_id=sender.producer_id, producer_epoch=sender.epoch, committed=sender.commit
    )
    return int((await sender.whole.ask(request, version)).error_code)


async def produce(sender: Sender, version: int) -> int:
    data = batch_of_values(
        b"v", producer_id=sender.producer_id, producer_epoch=sender.epoch, base_sequence=0, is_transactional=True
    )
    one = PartitionProduceData(index=sender.partition, records=data)
    topics = [TopicProduceData(name="t", partition_data=[one])]
    request = ProduceRequest(transactional_id=sender.tid, acks=-1, timeout_ms=1000, topic_data=topics)
    return int((await sender.whole.ask(request, version)).responses[0].partition_responses[0].error_code)


REQUESTS: dict[str, Callable[[Sender, int], Awaitable[int]]] = {
    "InitProducerId": init_producer_id,
    "AddPartitionsToTxn": add_partitions_to_txn,
    "AddOffsetsToTxn": add_offsets_to_txn,
    "TxnOffsetCommit": txn_offset_commit,
    "EndTxn": end_txn,
    "Produce": produce,
}

# The story before the request, of a transactional id that is a new one in each version


async def initialized(whole: Whole, tid: str) -> Sender:
    """Return a client that has its producer id and no transaction."""
    producer = OffsetProducer(whole, tid=tid)
    assert await producer.init(timeout_ms=5_000) == ErrorCode.NONE
    return Sender(whole, producer.producer_id, producer.epoch, tid)


def with_fields(**fields: Any) -> Scene:
    async def scene(whole: Whole, tid: str) -> Sender:
        return (await initialized(whole, tid))._replace(**fields)

    return scene


async def old_epoch(whole: Whole, tid: str) -> Sender:
    first = await initialized(whole, tid)
    await initialized(whole, tid)
    await initialized(whole, tid)  # two epochs later, so that this is no repeated request
    return first


async def other_producer(whole: Whole, tid: str) -> Sender:
    sender = await initialized(whole, tid)
    return sender._replace(producer_id=sender.producer_id + 1000)


async def opened(whole: Whole, tid: str) -> Sender:
    sender = await initialized(whole, tid)
    assert await sender._replace(partition=1).send("AddPartitionsToTxn", 3) == ErrorCode.NONE
    return sender


def ending(*, commit: bool) -> Scene:
    """Return a client whose commit is decided, and whose markers cannot be written."""

    async def scene(whole: Whole, tid: str) -> Sender:
        sender = await opened(whole, tid)
        whole.transactions.markers._mailbox.is_busy = True  # so nothing begins
        assert await sender.send("EndTxn", 4) == ErrorCode.NONE
        return sender._replace(commit=commit)

    return scene


def ended(*, commit: bool) -> Scene:
    async def scene(whole: Whole, tid: str) -> Sender:
        sender = await opened(whole, tid)
        assert await sender.send("EndTxn", 4) == ErrorCode.NONE
        return sender._replace(commit=commit)

    return scene


async def timed_out(whole: Whole, tid: str) -> Sender:
    sender = await opened(whole, tid)
    whole.pass_time(20_000)
    return sender


async def loading(whole: Whole, tid: str) -> Sender:
    whole.transactions.runtime.begin_loading(0)
    return Sender(whole, 7, 0, tid)


async def unknown(whole: Whole, tid: str) -> Sender:
    return Sender(whole, 7, 0, f"never used: {tid}")


SCENES: dict[str, Scene] = {
    "the epoch is old": old_epoch,
    "the transactional id is unknown": unknown,
    "the producer id is another one": other_producer,
    "the partition was not added": opened,
    "markers are being written": ending(commit=True),
    "markers of this end are being written": ending(commit=True),
    "markers of the other end are being written": ending(commit=False),
    "the transaction has ended like this": ended(commit=True),
    "the transaction has ended otherwise": ended(commit=False),
    "there is no transaction": initialized,
    "there is no transaction, and the client aborts": with_fields(commit=False),
    "the timeout has aborted the transaction": timed_out,
    "the timeout is longer than the limit": with_fields(timeout_ms=900_001),
    "the coordinator is loading": loading,
    "the id is empty": with_fields(tid=""),
}


class Row(NamedTuple):
    when: str
    api: str
    first: int
    last: int
    code: ErrorCode


def rows() -> list[Row]:
    return [
        Row(match["when"], match["api"], int(match["first"]), int(match["last"] or match["first"]), ErrorCode[match["code"]])
        for match in _ROW.finditer(TABLE.read_text())
    ]


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.when}: {row.api} v{row.first}-{row.last}")
async def test_a_row_of_the_table(tmp_path: Path, row: Row) -> None:
    whole = await broker(tmp_path, offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1)
    await whole.ask(FindCoordinatorRequest(key=GROUP), 3)
    found = {}
    for version in range(row.first, row.last + 1):
        sender = await SCENES[row.when](whole, f"t-{version}")
        found[version] = await sender.send(row.api, version)
    assert found == dict.fromkeys(range(row.first, row.last + 1), row.code)


def test_the_table_has_every_scene_and_every_version_of_a_request() -> None:
    table = rows()
    assert {row.when for row in table} == SCENES.keys()
    for api, key in KEYS.items():
        lowest, highest = message_versions(key)
        versions = {version for row in table if row.api == api for version in range(row.first, row.last + 1)}
        assert versions >= set(range(3 if api == "Produce" else lowest, min(highest, 12) + 1)), api
