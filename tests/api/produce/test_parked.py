"""A Produce that waits until its records are durable keeps none of its bytes."""

from __future__ import annotations

import asyncio
import weakref
from pathlib import Path
from typing import Any

import pytest

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.sharing import work as sharing
from testing.scenes.api import records
from testing.scenes.api.whole import Whole, frame_of
from testing.waiting import turned_until
from tests.api.produce.test_durable_appends import slow_disk

VERSION = 9


class Received(bytearray):
    """The memory of a request."""

    __slots__ = ("__weakref__",)


class Holder:
    """The connection's memory, which stays as long as something refers to it."""

    has_next_request = False

    def hold_request(self, size: int) -> bool:
        return size > 0

    def release_request(self) -> None:
        """Forget the request."""


def produce(partitions: int) -> ProduceRequest:
    data: list[Any] = [records.batch_of_values(b"x" * 100) for _ in range(partitions)]
    partition_data = [PartitionProduceData(index=index, records=one) for index, one in enumerate(data)]
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=partition_data)])


def sent_as(whole: Whole, request: ProduceRequest) -> tuple[asyncio.Future[Any], weakref.ref[Received]]:
    """Send a request whose memory nothing else refers to."""
    received = Received(frame_of(request, VERSION))
    whole.connection.holder = Holder()
    response = whole.dispatcher.handle(whole.connection, memoryview(received))
    assert isinstance(response, asyncio.Future)
    return response, weakref.ref(received)


@pytest.mark.parametrize("way", ["at once", "in slices"])
@pytest.mark.parametrize("partitions", [1, 2])
async def test_a_produce_that_waits_keeps_none_of_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, way: str
) -> None:
    whole, disk = await slow_disk(tmp_path, flush_messages="1")
    if way == "in slices":
        monkeypatch.setattr(sharing, "SLICE_S", -1)
    request = produce(partitions)
    response, received = sent_as(whole, request)
    await turned_until(lambda: whole.replicas.produce_purgatory.delayed, "the wait")
    await turned_until(lambda: received() is None, "the end of the request's memory")
    assert not response.done()
    disk.run_all()
    (topic,) = whole.read(await response, request, VERSION).responses
    assert [(one.index, one.error_code, one.base_offset) for one in topic.partition_responses] == [
        (index, 0, 0) for index in range(partitions)
    ]


async def test_only_partitions_that_are_not_durable_in_time_have_timed_out(tmp_path: Path) -> None:
    whole, disk = await slow_disk(tmp_path, flush_messages="1")
    request = produce(2)
    response = whole.send(request, VERSION)
    await turned_until(lambda: whole.replicas.produce_purgatory.watched == 2, "the wait")
    disk.run_next()
    assert not response.done()
    whole.pass_time(1000)
    (topic,) = whole.read(await response, request, VERSION).responses
    assert sorted(one.error_code for one in topic.partition_responses) == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
    assert whole.replicas.produce_purgatory.expirations == 1
    assert whole.replicas.produce_purgatory.delayed == 0
