"""Responses that are sent again: the same bytes except the correlation id, never about an older image or another address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.api import response_memo
from pybroker.api.registry import APIS, load_api
from pybroker.api.response_memo import KeptResponse, ResponseMemo
from pybroker.metadata.image import empty_image
from pybroker.model import BrokerId, TopicId
from pybroker.network.context import ConnectionContext
from pybroker.protocol.codec import decode_response, encode_request
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from testing.scenes.api.whole import Whole


def metadata(whole: Whole, *names: str, version: int = 9, correlation_id: int = 77) -> tuple[int, Any]:
    """Return the correlation id and the response about some topics, none of which may be created."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False)
    parts = encode_request(request, version, correlation_id=correlation_id, client_id="test")
    frame = b"".join(bytes(part) for part in parts)[4:]  # type: ignore[arg-type]  # no late parts
    response = whole.dispatcher.handle(whole.connection, memoryview(frame))
    assert isinstance(response, bytes)
    return decode_response(MetadataResponse, version, memoryview(response)[4:])


@pytest.mark.parametrize("version", [4, 9, 12])
async def test_the_second_response_is_the_first_with_another_correlation_id(tmp_path: Path, version: int) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("a", 3)
    first = metadata(whole, "a", "none", version=version, correlation_id=1)
    again = metadata(whole, "a", "none", version=version, correlation_id=-2)
    assert (first[0], again[0]) == (1, -2)
    assert first[1] == again[1]
    counted = whole.metrics.requests[3]
    assert counted.requests == {version: 2}
    assert counted.errors == {"NONE": 2, "UNKNOWN_TOPIC_OR_PARTITION": 2}
    assert counted.total_ns.count == 2


async def test_a_change_of_the_cluster_is_seen_at_once(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    for partitions in (1, 2):
        assert not metadata(whole, "a")[1].topics[0].partitions
        topic_id = TopicId(await whole.create("a", partitions))
        assert [len(metadata(whole, "a")[1].topics[0].partitions) for _ in range(2)] == [partitions] * 2
        await whole.controller.delete_topics([topic_id])


async def test_other_addresses_versions_and_requests_have_responses_of_their_own(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("a")
    assert metadata(whole, "a")[1].brokers[0].port == 9092
    whole.connection = ConnectionContext(connection_id=2, local_host="127.0.0.1", local_port=19092)
    assert metadata(whole, "a")[1].brokers[0].port == 19092
    whole.connection.advertised_host, whole.connection.advertised_port = "localhost", 29092
    assert (metadata(whole, "a")[1].brokers[0].host, metadata(whole, "a")[1].brokers[0].port) == ("localhost", 29092)
    assert metadata(whole, "a", version=4)[1].topics[0].partitions[0].leader_epoch == -1
    assert metadata(whole, "b")[1].topics[0].name == "b"


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_memo, "MEMO_BYTES_MAX", 100)
    monkeypatch.setattr(response_memo, "REQUEST_BYTES_MAX", 10)
    memo, image, connection = ResponseMemo(), empty_image(BrokerId(1)), ConnectionContext(connection_id=1)
    asked = [ResponseMemo.key(connection, 1, memoryview(bytes([number]) * 10)) for number in range(5)]
    large = ResponseMemo.key(connection, 1, memoryview(bytes(11)))
    assert memo.find(image, asked[0]) is None
    for one in (*asked, large):
        memo.keep(image, one, KeptResponse(bytes(20), ()))
    assert [memo.find(image, one) is not None for one in (*asked, large)] == [False, False, False, True, True, False]
    memo.keep(image, asked[0], KeptResponse(bytes(91), ()))
    assert memo.find(image, asked[0]) is None
    memo.keep(empty_image(BrokerId(2)), asked[0], KeptResponse(b"", ()))
    assert memo.find(image, asked[0]) is None


def test_metadata_is_the_api_that_keeps_responses() -> None:
    assert [api.name for key, api in APIS.items() if load_api(key).memo is not None] == ["Metadata"]
