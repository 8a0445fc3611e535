"""The largest requests that a client may send hold the loop for less than 50 ms, and each element of them has its result."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from pybroker.model import TopicId
from pybroker.protocol import codec
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pybroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pybroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pybroker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from testing.scenes.api.codes import codes_in
from testing.scenes.api.whole import Whole, frame_of, settled
from testing.turns import run_watched
from tests.api.offset_transactions import GROUP, OffsetProducer
from tests.api.transactions import broker

pytestmark = [
    pytest.mark.judges_time,
    pytest.mark.skipif(not codec.IS_NATIVE, reason="to decode and encode such messages in Python takes longer than a turn may"),
]

LIMIT_MS: Final = 50
PARTITIONS: Final = 25_000 - 8
"""One topic of this many partitions has nearly as many elements as a request may have."""
TOPICS: Final = 10_000
"""This many topics of one partition each are the most that the broker is made for: 20,000 elements."""
NONE = ErrorCode.NONE
TOPIC_IDS: Final = [TopicId(number.to_bytes(16)) for number in range(TOPICS)]


async def started(folder: Path) -> tuple[Whole, OffsetProducer]:
    """Start a broker with a large topic and many small ones in its metadata, and a producer that may commit offsets."""
    whole = await broker(folder, offsets_topic_num_partitions=1, message_max_bytes=10_000_000)
    await whole.ask(FindCoordinatorRequest(key=GROUP), 3)
    producer = OffsetProducer(whole, 1)
    assert await producer.init() == NONE
    assert await producer.open_offsets(GROUP) == NONE
    image = whole.controller.image
    topic = image.topics["t"]
    large = dataclasses.replace(topic, partitions=topic.partitions[:1] * PARTITIONS)
    small = [dataclasses.replace(topic, name=f"t{number}", topic_id=one) for number, one in enumerate(TOPIC_IDS)]
    topics = {**image.topics, "t": large, **{one.name: one for one in small}}
    by_id = {**image.topics_by_id, **{one.topic_id: one for one in topics.values()}}
    whole.controller.image = dataclasses.replace(image, topics=topics, topics_by_id=by_id)
    return whole, producer


def commit(*topics: OffsetCommitRequestTopic) -> OffsetCommitRequest:
    return OffsetCommitRequest(group_id=GROUP, topics=list(topics))


def offset(number: int) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(partition_index=number, committed_offset=7)


def in_transaction(producer: OffsetProducer, *topics: TxnOffsetCommitRequestTopic) -> TxnOffsetCommitRequest:
    values: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    return TxnOffsetCommitRequest(group_id=GROUP, transactional_id=producer.tid, topics=list(topics), **values)


def pending(number: int) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(partition_index=number, committed_offset=7)


def addition(producer: OffsetProducer, *topics: AddPartitionsToTxnTopic) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.tid,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=list(topics),
    )


def verification(producer: OffsetProducer) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic(name="t", partitions=list(range(PARTITIONS)))]
    values: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "topics": topics}
    one = AddPartitionsToTxnTransaction(transactional_id=producer.tid, verify_only=True, **values)
    return AddPartitionsToTxnRequest(transactions=[one])


def markers(producer: OffsetProducer, *topics: WritableTxnMarkerTopic) -> WriteTxnMarkersRequest:
    values: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "coordinator_epoch": 0}
    return WriteTxnMarkersRequest(markers=[WritableTxnMarker(topics=list(topics), transaction_result=True, **values)])


def deletion() -> OffsetDeleteRequest:
    partitions = [OffsetDeleteRequestPartition(partition_index=number) for number in range(PARTITIONS)]
    return OffsetDeleteRequest(group_id=GROUP, topics=[OffsetDeleteRequestTopic(name="t", partitions=partitions)])


_COMMIT: Final = commit(OffsetCommitRequestTopic(name="t", partitions=[offset(number) for number in range(PARTITIONS)]))

Case = tuple[Callable[[OffsetProducer], tuple[Any, int]], dict[ErrorCode, int]]

CASES: dict[str, Case] = {
    "commit of partitions": (lambda _: (_COMMIT, 8), {NONE: PARTITIONS}),
    "commit of topics by id": (
        lambda _: (commit(*[OffsetCommitRequestTopic(topic_id=one, partitions=[offset(0)]) for one in TOPIC_IDS]), 10),
        {NONE: TOPICS},
    ),
    "commit of partitions in a transaction": (
        lambda one: (
            in_transaction(one, TxnOffsetCommitRequestTopic(name="t", partitions=list(map(pending, range(PARTITIONS))))),
            3,
        ),
        {NONE: PARTITIONS},
    ),
    "partitions of a transaction": (
        lambda one: (addition(one, AddPartitionsToTxnTopic(name="t", partitions=list(range(PARTITIONS)))), 3),
        {NONE: PARTITIONS},
    ),
    "verification of a transaction": (
        lambda one: (verification(one), 4),
        {ErrorCode.TRANSACTION_ABORTABLE: PARTITIONS},
    ),
    "markers": (
        lambda one: (
            markers(
                one,
                WritableTxnMarkerTopic(name="t", partition_indexes=[0]),
                WritableTxnMarkerTopic(name="none", partition_indexes=list(range(1, PARTITIONS))),
            ),
            1,
        ),
        {NONE: 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: PARTITIONS - 1},
    ),
    "deletion of offsets": (lambda _: (deletion(), 0), {NONE: PARTITIONS}),
}
"""The request with its version, and how many elements get which code."""


@pytest.mark.parametrize("name", CASES)
def test_the_loop_is_held_for_less_than_50_ms(tmp_path: Path, name: str) -> None:
    make, expected = CASES[name]
    found: Counter[int] = Counter()

    async def ask() -> None:
        whole, producer = await started(tmp_path)
        whole.call_soon = asyncio.get_running_loop().call_soon
        if name == "deletion of offsets":
            await whole.ask(_COMMIT, 8)
        request, version = make(producer)
        frame = frame_of(request, version)
        await asyncio.sleep(0)  # what the client does is no part of the turn
        sent = await settled(whole.dispatcher.handle(whole.connection, frame))
        await asyncio.sleep(0)
        found.update(codes_in(whole.read(sent, request, version)))

    assert run_watched(ask, limit_ms=LIMIT_MS).long_texts("<locals>.ask held") == []
    assert found == expected


def names_of(request: type[Any], topic: type[Any]) -> Any:
    return request(topics=[topic(name=f"t{number}") for number in range(2 * TOPICS)])


ABOUT_MANY_TOPICS: dict[str, tuple[Any, int]] = {
    "metadata": (names_of(MetadataRequest, MetadataRequestTopic), 12),
    "offsets": (
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(name=f"t{number}", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
                for number in range(TOPICS)
            ],
        ),
        5,
    ),
    "settings": (
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=2, resource_name=f"t{number}", configuration_keys=None)
                for number in range(TOPICS)
            ],
            include_synonyms=True,
        ),
        4,
    ),
}


@pytest.mark.parametrize(("request_", "version"), ABOUT_MANY_TOPICS.values(), ids=ABOUT_MANY_TOPICS)
def test_a_request_about_very_many_topics_holds_the_loop_for_less_than_50_ms(tmp_path: Path, request_: Any, version: int) -> None:
    frame = frame_of(request_, version)

    async def ask() -> None:
        whole, _ = await started(tmp_path)
        await asyncio.sleep(0)
        await settled(whole.dispatcher.handle(whole.connection, frame))

    assert run_watched(ask, limit_ms=LIMIT_MS).long_texts("<locals>.ask held") == []
