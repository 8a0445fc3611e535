"""Long requests and responses are decoded and encoded in a thread: the response is the same, and the loop is not held."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pybroker.api.long_messages import HeldRequest
from pybroker.network.context import ConnectionContext, ProtocolViolation
from pybroker.protocol import codec
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
)
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.replication.replica_manager import ReplicaManager
from testing.scenes.api.groups import GROUP, broker
from testing.scenes.api.whole import Whole, frame_of, settled
from testing.scenes.logs import batch
from testing.turns import run_watched
from testing.waiting import turned_until
from tests.api.test_pieces import old_fetch


class Holder:
    """The connection as `RequestHolder`."""

    def __init__(self, *, stays: bool) -> None:
        self.stays = stays
        self.held: list[int] = []
        self.released = 0

    @property
    def has_next_request(self) -> bool:
        return False

    def hold_request(self, size: int) -> bool:
        self.held.append(size)
        return self.stays

    def release_request(self) -> None:
        self.released += 1


def produce(acks: int = 1) -> ProduceRequest:
    partitions = [PartitionProduceData(index=index, records=batch()) for index in (0, 1, 2)]
    return ProduceRequest(acks=acks, timeout_ms=100, topic_data=[TopicProduceData(name="t", partition_data=partitions)])


def fetch() -> FetchRequest:
    partitions = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in (0, 1, 2)]
    return FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic="t", partitions=partitions)])


def names(count: int) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=f"t{number}") for number in range(count)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


@pytest.mark.parametrize("request_", [produce(), fetch(), names(5), old_fetch(3)], ids=lambda one: type(one).__name__)
async def test_the_response_is_that_at_once(tmp_path: Path, request_: Any) -> None:
    whole = await broker(tmp_path, auto_create_topics_enable=False)
    version = {"ProduceRequest": 8, "FetchRequest": 11, "MetadataRequest": 11, "OffsetFetchRequest": 7}[type(request_).__name__]
    await whole.ask(produce(), 8)
    whole.dispatcher.loop_elements_max = 2
    sent = whole.send(request_, version)
    assert isinstance(sent, asyncio.Future), "it is long"
    later = whole.read(await sent, request_, version)
    whole.dispatcher.loop_elements_max = 1000
    at_once = await whole.ask(request_, version)
    if isinstance(request_, ProduceRequest):
        for topic in (*at_once.responses, *later.responses):
            topic.partition_responses[0].base_offset = topic.partition_responses[1].base_offset = 0
    assert later == at_once


async def test_a_request_without_a_response_is_handled(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    whole.dispatcher.loop_elements_max = 2
    request = produce(acks=0)
    request.topic_data[0].partition_data.pop()
    request.topic_data[0].partition_data[0].records = None
    with pytest.raises(ProtocolViolation):
        await whole.ask(request, 8)


async def test_damage_behind_many_elements_ends_the_connection(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    whole.dispatcher.loop_elements_max = 2
    parts = codec.encode_request(names(5), 11, correlation_id=77, client_id="test")
    frame = memoryview(bytearray(b"".join(parts)))[4:-6]  # type: ignore[arg-type]  # no late parts
    with pytest.raises(ProtocolViolation, match="cannot be read"):
        await settled(whole.dispatcher.handle(whole.connection, frame))


async def test_a_request_of_too_many_elements_ends_the_connection_and_its_bytes_are_let_go(tmp_path: Path) -> None:
    whole = await broker(tmp_path, auto_create_topics_enable=False, pybroker_request_elements_max=8192)
    assert len((await whole.ask(names(8192), 11)).topics) == 8192
    parts = codec.encode_request(names(8193), 11, correlation_id=77, client_id="test")
    frame = memoryview(bytearray(b"".join(parts)))[4:]  # type: ignore[arg-type]  # no late parts
    whole.connection.holder = holder = Holder(stays=True)
    with pytest.raises(ProtocolViolation, match=r"pybroker\.request\.elements\.max"):
        await settled(whole.dispatcher.handle(whole.connection, frame))
    assert (holder.held, holder.released) == ([len(frame)], 1)


async def test_an_error_of_all_is_the_error_of_each(tmp_path: Path) -> None:
    whole = await Whole(tmp_path, offsets_topic_num_partitions=2).start()
    whole.dispatcher.loop_elements_max = 2
    request = OffsetFetchRequest(group_id=GROUP, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1, 2])])
    (topic,) = (await whole.ask(request, 1)).topics
    assert [one.error_code for one in topic.partitions] == [ErrorCode.NOT_COORDINATOR] * 3


async def test_a_bug_is_the_error_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await broker(tmp_path)
    whole.dispatcher.loop_elements_max = 2

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(ReplicaManager, "read", fail)
    (topic,) = (await whole.ask(fetch(), 6)).responses
    assert [one.error_code for one in topic.partitions] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 3
    assert whole.metrics.unexpected_errors == 1


async def test_a_client_that_ends_in_the_middle_gets_nothing(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    whole.dispatcher.loop_elements_max = 2
    holder = Holder(stays=True)
    whole.connection.holder = holder
    sent = whole.send(produce(), 8)
    sent.cancel()
    await turned_until(lambda: holder.released, "the release of the memory")
    assert (len(holder.held), holder.released) == (1, 1)


@pytest.mark.parametrize("stays", [False, True])
async def test_the_bytes_are_kept_until_the_handler_has_returned(tmp_path: Path, stays: bool) -> None:
    whole = await broker(tmp_path)
    whole.dispatcher.loop_elements_max = 2
    holder = Holder(stays=stays)
    whole.connection.holder = holder
    await whole.ask(produce(), 8)
    assert (len(holder.held), holder.released) == (1, 1)
    assert whole.connection.holder is holder


@pytest.mark.parametrize("stays", [False, True])
def test_a_handler_keeps_the_bytes_that_it_needs(stays: bool) -> None:
    connection = ConnectionContext(connection_id=1, local_host="127.0.0.1", local_port=9092)
    connection.holder = outer = Holder(stays=stays)
    frame = memoryview(bytearray(b"bytes"))
    held = HeldRequest(connection, frame)
    assert held.frame.obj is frame.obj or not stays

    def handle() -> bool:
        assert connection.holder is held
        return connection.holder.hold_request(3)

    assert held.during(handle)
    assert (connection.holder, outer.held, outer.released) == (outer, [5], 0)
    held.release_request()
    held.release_request()
    assert outer.released == 1


@pytest.mark.parametrize("topics", [[MetadataRequestTopic(name="t")], None], ids=["one", "all"])
async def test_a_long_metadata_response_is_there_again_for_the_next_client(
    tmp_path: Path, topics: list[MetadataRequestTopic] | None
) -> None:
    whole = await broker(tmp_path)
    request = MetadataRequest(topics=topics)
    usual = await whole.ask(request, 11)
    assert len(usual.topics[-1].partitions) == 2
    whole.dispatcher.loop_elements_max = 1
    for version in (12, 10, 9, 12):  # none of them has a response that was kept
        response = await whole.ask(request, version)
        assert [(topic.name, topic.partitions) for topic in response.topics] == [
            (topic.name, topic.partitions) for topic in usual.topics
        ]


@pytest.mark.judges_time
@pytest.mark.skipif(not codec.IS_NATIVE, reason="in Python each element of the test itself takes long")
@pytest.mark.parametrize(("request_", "version"), [(names(25_000), 11), (old_fetch(24_000), 7)], ids=["names", "partitions"])
def test_a_long_message_does_not_hold_the_loop(tmp_path: Path, request_: Any, version: int) -> None:
    frame = frame_of(request_, version)

    async def ask() -> None:
        whole = await broker(tmp_path, auto_create_topics_enable=False)
        await asyncio.sleep(0)
        await settled(whole.dispatcher.handle(whole.connection, memoryview(bytearray(frame))))

    assert run_watched(ask).long_texts() == []


async def test_a_usual_request_is_handled_at_once(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    assert isinstance(whole.send(FindCoordinatorRequest(key=GROUP), 0), bytes)
