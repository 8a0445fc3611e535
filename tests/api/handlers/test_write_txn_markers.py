"""Markers that come by WriteTxnMarkers: what they end, and what they are refused for."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.model import ProducerEpoch, ProducerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from testing.error_codes import error_code
from testing.scenes.api.whole import Whole
from tests.api.offset_transactions import GROUP, UNSTABLE, OffsetProducer, committed
from tests.api.transactions import Producer, broker, fetched

NONE = ErrorCode.NONE
Results = dict[tuple[str, int], ErrorCode]


def marker(producer: Producer, *partitions: int, topic: str = "t", commit: bool = True, **fields: int) -> WritableTxnMarker:
    values = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "coordinator_epoch": 0}
    topics = [WritableTxnMarkerTopic(name=topic, partition_indexes=list(partitions or (0,)))]
    return WritableTxnMarker(transaction_result=commit, topics=topics, **(values | fields))


async def write(whole: Whole, *markers: WritableTxnMarker, version: int = 1) -> list[Results]:
    response = await whole.ask(WriteTxnMarkersRequest(markers=list(markers)), version)
    return [
        {(topic.name, one.partition_index): error_code(one.error_code) for topic in result.topics for one in topic.partitions}
        for result in response.markers
    ]


async def opened(folder: Path, *partitions: int) -> tuple[Whole, Producer]:
    whole = await broker(folder)
    producer = Producer(whole, 2)
    await producer.init()
    for partition in partitions:
        assert await producer.send(partition, b"a") == NONE
    return whole, producer


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("commit", [True, False])
async def test_a_marker_ends_the_transaction_in_its_partitions(tmp_path: Path, version: int, commit: bool) -> None:
    whole, producer = await opened(tmp_path, 0, 1)
    (results,) = await write(whole, marker(producer, 0, 7, commit=commit), version=version)
    assert results == {("t", 0): NONE, ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    _, ended = await fetched(whole, 0, committed=True)
    assert (ended.last_stable_offset, len(ended.aborted_transactions or ())) == (2, 0 if commit else 1)
    _, other = await fetched(whole, 1, committed=True)
    assert other.last_stable_offset == 0


async def test_markers_of_one_producer_have_one_result(tmp_path: Path) -> None:
    whole, producer = await opened(tmp_path, 0, 1)
    assert await write(whole) == []
    results = await write(whole, marker(producer, 0), marker(producer, 1), marker(producer, topic="none", producer_id=77))
    assert results == [{("t", 0): NONE, ("t", 1): NONE}, {("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]


async def test_markers_of_an_older_coordinator_or_producer_are_refused(tmp_path: Path) -> None:
    whole, producer = await opened(tmp_path, 0)
    assert await write(whole, marker(producer, coordinator_epoch=5)) == [{("t", 0): NONE}]
    fenced = {("t", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    assert await write(whole, marker(producer, coordinator_epoch=4)) == [fenced]
    old = {("t", 0): ErrorCode.INVALID_PRODUCER_EPOCH}
    assert await write(whole, marker(producer, producer_epoch=-2, coordinator_epoch=5)) == [old]
    assert await write(whole, marker(producer, producer_epoch=producer.epoch + 1, coordinator_epoch=6)) == [{("t", 0): NONE}]


async def test_a_marker_of_version_2_needs_a_larger_epoch(tmp_path: Path) -> None:
    whole, producer = await opened(tmp_path, 0)
    log = whole.replicas.partition_or_raise(TopicPartition("t", 0)).log
    late = {("t", 0): ErrorCode.INVALID_PRODUCER_EPOCH}
    assert await write(whole, marker(producer, transaction_version=2), version=2) == [late]
    assert log.producers.has_open_transaction(ProducerId(producer.producer_id), ProducerEpoch(producer.epoch))
    for _ in range(2):  # also again, because nothing is open then
        larger = marker(producer, producer_epoch=producer.epoch + 1, transaction_version=2)
        assert await write(whole, larger, version=2) == [{("t", 0): NONE}]
        assert not log.producers.has_open_transaction(ProducerId(producer.producer_id), ProducerEpoch(producer.epoch))


async def test_the_last_epoch_may_end_its_own_transaction(tmp_path: Path) -> None:
    whole, producer = await opened(tmp_path, 0)
    producers = whole.replicas.partition_or_raise(TopicPartition("t", 0)).log.producers
    entry = producers.producers[ProducerId(producer.producer_id)]
    producers.producers[entry.producer_id] = entry._replace(producer_epoch=ProducerEpoch(32767))
    last = marker(producer, producer_epoch=32767, transaction_version=2)
    assert await write(whole, last, version=2) == [{("t", 0): NONE}]
    _, data = await fetched(whole, 0, committed=True)
    assert data.last_stable_offset == 2


@pytest.mark.parametrize("commit", [True, False])
async def test_a_marker_for_the_topic_of_offsets_changes_the_offsets(tmp_path: Path, commit: bool) -> None:
    whole = await broker(tmp_path, offsets_topic_num_partitions=1)
    await whole.ask(FindCoordinatorRequest(key=GROUP), 3)
    producer = OffsetProducer(whole, 2)
    await producer.init()
    assert await producer.commit(5) == [NONE]
    assert await committed(whole) == [UNSTABLE, -1]
    asked = marker(producer, topic="__consumer_offsets", commit=commit)
    whole.groups.runtime.begin_loading(0)
    assert await write(whole, asked) == [{("__consumer_offsets", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER}]
    whole.groups.stop()
    whole.groups.start()
    assert await write(whole, asked) == [{("__consumer_offsets", 0): NONE}]
    assert await committed(whole) == [5 if commit else -1, -1]


@pytest.mark.parametrize("fields", [{"producer_id": -1}, {"producer_epoch": -1}])
async def test_a_marker_of_no_producer_is_refused_with_all_others(tmp_path: Path, fields: dict[str, int]) -> None:
    whole, producer = await opened(tmp_path, 0)
    found = await write(whole, marker(producer, 0), marker(producer, 0, 1, **fields))  # type: ignore[arg-type]
    assert {code for results in found for code in results.values()} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert whole.replicas.partition_or_raise(TopicPartition("t", 0)).log.log_end_offset == 1
