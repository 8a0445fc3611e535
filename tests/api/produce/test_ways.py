"""A produce request of one partition, whose batch the tail appends by itself, and the same on the general way: one behaviour."""

from __future__ import annotations

import asyncio
import errno
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.api.handlers import produce
from pybroker.api.produce.appends import Appends
from pybroker.log.segments import segment
from pybroker.log.segments.segment import LogSegment
from pybroker.metrics.broker_metrics import TopicMetrics
from pybroker.model import TopicPartition
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.records import kernels
from pybroker.sharing import work as sharing
from testing.scenes.api.records import batch_of_values
from testing.scenes.api.whole import NOW_MS, Whole, collected, frame_of
from testing.scenes.logs import TAILS, log_state

TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "small": {"segment_bytes": "1000", "index_interval_bytes": "150", "max_message_bytes": "400", "flush_messages": "5"},
    "young": {"segment_ms": "40", "message_timestamp_after_max_ms": "30", "message_timestamp_before_max_ms": "100"},
    "stamped": {"message_timestamp_type": "LogAppendTime"},
    "compacted": {"cleanup_policy": "compact"},
}
NAMES = [*TOPICS, "__consumer_offsets", "unknown"]


@st.composite
def partitions(draw: st.DrawFn) -> PartitionProduceData:
    values = [b"v" * size for size in draw(st.lists(st.integers(0, 150), min_size=1, max_size=3))]
    fields: dict[str, int] = {}
    if draw(st.booleans()):
        fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": draw(st.integers(0, 4))}
    records = bytearray(batch_of_values(*values, timestamp=NOW_MS + draw(st.integers(-120, 60)), **fields))
    fault = draw(st.sampled_from(["", "", "", "", "", "null", "damage", "transaction", "cut"]))
    if fault == "damage":
        records[draw(st.integers(0, len(records) - 1))] ^= 4
    elif fault == "transaction":
        records[22] |= 0x10
    elif fault == "cut":
        del records[draw(st.integers(0, len(records))) :]
    index = draw(st.sampled_from([0, 0, 0, 1, 7]))
    return PartitionProduceData(index=index, records=None if fault == "null" else records)


@st.composite
def requests(draw: st.DrawFn) -> tuple[ProduceRequest, int]:
    count = draw(st.sampled_from([1, 1, 1, 2]))
    topics = [
        TopicProduceData(
            name=draw(st.sampled_from(NAMES)),
            partition_data=draw(st.lists(partitions(), min_size=1, max_size=draw(st.integers(1, 2)))),
        )
        for _ in range(count)
    ]
    return ProduceRequest(acks=draw(st.sampled_from([1, 1, 1, -1, 0, 2])), timeout_ms=100, topic_data=topics), draw(
        st.sampled_from([3, 5, 7, 8, 9, 12])
    )


def fetch(name: str) -> FetchRequest:
    wanted = [FetchTopic(topic=name, partitions=[FetchPartition(partition=0, fetch_offset=1 << 40, partition_max_bytes=1 << 20)])]
    return FetchRequest(replica_id=-1, max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=wanted)


def response_of(whole: Whole, request: ProduceRequest, version: int) -> object:
    """Return all bytes of the response, or that the connection is closed."""
    frame = frame_of(request, version)
    try:
        response = whole.dispatcher.handle(whole.connection, frame)
    except ProtocolViolation as error:
        return str(error)
    return response if response is None else collected(response)  # type: ignore[arg-type]  # what waits is compared elsewhere


def numbers(metrics: TopicMetrics) -> list[int]:
    return [getattr(metrics, name) for name in TopicMetrics.NAMES]


def everything(whole: Whole) -> object:
    counted = {name: numbers(topic) for name, topic in whole.metrics.topics.items()}
    found = {
        topic_partition: (log_state(partition.log), partition.high_watermark_metadata)
        for topic_partition, partition in whole.replicas.partitions.items()
    }
    return numbers(whole.metrics.all_topics), counted, whole.metrics.requests[0].errors, found


async def started(directory: str | Path) -> Whole:
    whole = await Whole(Path(directory)).start()
    for name, configs in TOPICS.items():
        await whole.create(name, partitions=2, **configs)
    return whole


async def parked(whole: Whole, name: str) -> asyncio.Future[Any]:
    end = whole.replicas.partitions[TopicPartition(name, 0)].log.log_end_offset
    asked = fetch(name)
    asked.topics[0].partitions[0].fetch_offset = end
    waiting = whole.send(asked, 11)
    assert isinstance(waiting, asyncio.Future)
    return waiting


def accept_none(*_: Any) -> None:
    """Accept no batch."""


@contextmanager
def general_only() -> Iterator[None]:
    """Let the broker treat no request as one of a single partition, and no batch as one of the usual form."""
    with (
        mock.patch.object(produce, "produce_one", return_value=None),
        mock.patch.object(kernels, "accept_batch", accept_none),
    ):
        yield


@pytest.mark.parametrize("tail", TAILS)
@given(sent=st.lists(st.tuples(requests(), st.integers(0, 30)), min_size=1, max_size=15))
@settings(deadline=None, max_examples=25)
def test_both_ways_respond_and_do_the_same(tail: ModuleType, sent: list[tuple[tuple[ProduceRequest, int], int]]) -> None:
    async def compare(first: str, second: str) -> None:
        quick, general = await started(first), await started(second)
        for (request, version), later_ms in sent:
            for whole in (quick, general):
                whole.pass_time(later_ms)
            name = request.topic_data[0].name
            waits = [await parked(whole, name) for whole in (quick, general)] if name in TOPICS else []
            one = response_of(quick, request, version)
            with general_only():
                other = response_of(general, request, version)
            assert isinstance(one, asyncio.Future) == isinstance(other, asyncio.Future)
            assert isinstance(one, asyncio.Future) or one == other
            await asyncio.sleep(0)
            assert len({waiting.done() for waiting in waits}) < 2
            for waiting in waits:
                waiting.cancel()
            assert everything(quick) == everything(general)

    with (
        mock.patch.object(segment, "SegmentTail", tail.SegmentTail),
        mock.patch.object(sharing, "SLICE_S", math.inf),
        TemporaryDirectory() as first,
        TemporaryDirectory() as second,
    ):
        asyncio.run(compare(first, second))


async def test_nearly_all_requests_take_the_quick_way(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    request = ProduceRequest(
        acks=1,
        timeout_ms=100,
        topic_data=[
            TopicProduceData(name="plain", partition_data=[PartitionProduceData(index=0, records=batch_of_values(b"v" * 100))])
        ],
    )
    response_of(whole, request, 7)  # the first one begins the leader's epoch
    stepwise = mock.patch.object(LogSegment, "append", side_effect=AssertionError)
    with mock.patch.object(Appends, "run", side_effect=AssertionError), stepwise:
        for version in (3, 7, 9, 12):
            for _ in range(100):
                (topic,) = (await whole.ask(request, version)).responses
                assert topic.partition_responses[0].error_code == 0
    partition = whole.replicas.partitions[TopicPartition("plain", 0)]
    assert partition.log.segments.active.offset_index.count > 10, "a batch that gets an index entry takes it, too"
    assert partition.high_watermark == 401


@pytest.mark.parametrize("is_quick", [True, False])
async def test_a_disk_that_fails_gives_an_error_and_is_counted(tmp_path: Path, is_quick: bool) -> None:
    whole = await started(tmp_path)
    request = ProduceRequest(
        acks=1,
        timeout_ms=100,
        topic_data=[
            TopicProduceData(name="plain", partition_data=[PartitionProduceData(index=0, records=batch_of_values(b"v" * 100))])
        ],
    )
    response_of(whole, request, 7)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log = whole.replicas.partitions[TopicPartition("plain", 0)].log
    log.segments.active.file._pwrite = full
    with nullcontext() if is_quick else general_only():
        (topic,) = (await whole.ask(request, 9)).responses
    (partition,) = topic.partition_responses
    assert (partition.error_code, partition.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert "offline" in partition.error_message
    assert log.log_directory.is_offline
    counted = whole.metrics.topics["plain"]
    assert (counted.produce_requests, counted.failed_produce_requests) == (2, 1)
