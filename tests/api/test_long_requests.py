"""Long requests: the response when it cannot be encoded, the memory that is kept while one waits, and many topics."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from pybroker.api import dispatch, long_messages, produce_layout
from pybroker.api.context import RequestContext
from pybroker.api.handlers import fetch
from pybroker.api.registry import load_api
from pybroker.network.context import ProtocolViolation
from pybroker.protocol import codec
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from pybroker.protocol.messages.fetch import FetchRequest, ForgottenTopic
from pybroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from pybroker.protocol.messages.produce import ProduceRequest
from testing.scenes.api.groups import broker
from testing.scenes.api.whole import Whole, frame_of, settled
from testing.turns import run_watched
from testing.waiting import turned_until

MANY = 12_000


def names(count: int) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=f"t{number}") for number in range(count)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


async def started(directory: Path) -> Whole:
    whole = await Whole(directory, auto_create_topics_enable=False).start()
    whole.dispatcher.loop_elements_max = 2
    return whole


@pytest.mark.parametrize(("version", "has_own_error"), [(13, True), (11, False)])
async def test_a_response_that_cannot_be_encoded_is_an_error_or_the_end_of_the_connection(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    version: int,
    has_own_error: bool,
) -> None:
    def fail(*_: Any) -> Any:
        raise codec.EncodeError("a value that does not fit")

    whole = await started(tmp_path)
    monkeypatch.setattr(long_messages, "encode_response", fail)
    sent = whole.send(names(5), version)
    if has_own_error:
        response = whole.read(await asyncio.wait_for(sent, 10), names(5), version)
        assert (response.error_code, response.topics) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])
    else:
        with pytest.raises(ProtocolViolation, match="no MetadataResponse"):
            await asyncio.wait_for(sent, 10)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert f"Metadata v{version}" in line
    assert whole.metrics.unexpected_errors == 1


async def test_a_request_whose_handler_waits_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[asyncio.Future[Any]] = []
    kept: list[Any] = []

    def wait(_broker: Any, _context: Any, request: MetadataRequest) -> asyncio.Future[Any]:
        kept.append(request.topics[0].name)  # type: ignore[index]  # it has some
        waits.append(asyncio.get_running_loop().create_future())
        return waits[0]

    whole = await started(tmp_path)
    waiting = dataclasses.replace(load_api(ApiKey.METADATA), handle=wait, pieces=None)
    monkeypatch.setattr(dispatch, "load_api", {ApiKey.METADATA: waiting}.__getitem__)
    sent = whole.send(names(5), 11)
    await turned_until(lambda: waits, "the call of the handler")
    await turned_until(lambda: sys.getrefcount(kept[0]) == 2, "the end of the decoded request")
    assert not sent.done()
    waits[0].set_result(MetadataResponse(topics=[]))
    assert whole.read(await sent, names(5), 11).topics == []


def list_offsets() -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=f"t{n}", partitions=[partition]) for n in range(MANY)])


def describe() -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(topics=[TopicRequest(name=f"t{n}") for n in range(MANY)])


class Unread(list[Any]):
    """A list that is not looked through."""

    def __iter__(self) -> Any:
        raise AssertionError("each element is looked at")


def test_the_number_of_topics_decides_without_a_look_at_each() -> None:
    many = Unread([None] * MANY)
    assert produce_layout.is_large(ProduceRequest(topic_data=many))


async def test_without_a_session_what_is_forgotten_is_not_looked_at(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    forgotten = [ForgottenTopic(topic="t", partitions=Unread([0]))]
    request = FetchRequest(session_id=5, session_epoch=5, topics=[], forgotten_topics_data=forgotten)
    response = await settled(fetch.handle(whole.services, RequestContext(whole.connection, 12, 1, ""), request))
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.judges_time
@pytest.mark.skipif(not codec.IS_NATIVE, reason="in Python each element of the test itself takes long")
@pytest.mark.parametrize(
    ("request_", "version"),
    [(list_offsets(), 5), (describe(), 0)],
    ids=["ListOffsets", "DescribeTopicPartitions"],
)
def test_many_topics_do_not_hold_the_loop(tmp_path: Path, request_: Any, version: int) -> None:
    frame = frame_of(request_, version)

    async def ask() -> None:
        whole = await broker(tmp_path, auto_create_topics_enable=False)
        await asyncio.sleep(0)
        await settled(whole.dispatcher.handle(whole.connection, memoryview(bytearray(frame))))

    assert run_watched(ask, limit_ms=20).long_texts() == []
