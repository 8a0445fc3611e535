"""The way of a frame: what is no request, what nobody serves, what a handler raises."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from pybroker.api import dispatch
from pybroker.api.error_response import error_response
from pybroker.api.registry import APIS
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.codec import decode_response, encode_request, encode_response
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.api.whole import Whole


@pytest.mark.parametrize("version", range(6))
async def test_api_versions_lists_what_is_registered(tmp_path: Path, version: int) -> None:
    whole = await Whole(tmp_path).start()
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    response = await whole.ask(request, version)
    listed = {(api.api_key, api.min_version, api.max_version) for api in response.api_keys}
    assert listed == {(api.key, api.lowest, api.highest) for api in APIS.values()}


async def test_an_unknown_version_of_api_versions_is_answered_in_version_0(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    frame = bytes.fromhex("0012 7fff 00000007 ffff 00 ff ff")  # key 18, version 32767, and a body that nobody knows
    answer = whole.dispatcher(whole.connection, memoryview(frame))
    assert isinstance(answer, bytes)
    correlation_id, response = decode_response(ApiVersionsResponse, 0, memoryview(answer)[4:])
    assert (correlation_id, response.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
    assert [(api.api_key, api.max_version) for api in response.api_keys] == [(18, 5)]


@pytest.mark.parametrize(
    "frame",
    ["", "00", "0003 0001 00000007", "03e7 0000 00000007 ffff", "0003 0063 00000007 ffff", "0003 0001 00000007 ffff 7fffffff"],
    ids=["empty", "short", "no client id", "unknown key", "unknown version", "an array that cannot be"],
)
async def test_what_is_no_request_closes_the_connection(tmp_path: Path, frame: str) -> None:
    whole = await Whole(tmp_path).start()
    with pytest.raises(ProtocolViolation):
        whole.dispatcher(whole.connection, memoryview(bytes.fromhex(frame)))


@pytest.mark.parametrize(
    ("error", "code", "bugs"),
    [
        (KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), ErrorCode.KAFKA_STORAGE_ERROR, 0),
        (KeyError(1), ErrorCode.UNKNOWN_SERVER_ERROR, 1),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_a_handler_raises_is_answered(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    code: ErrorCode,
    bugs: int,
    is_async: bool,
) -> None:
    def fail(*_: Any) -> None:
        raise error

    async def fail_later(*_: Any) -> None:
        raise error

    whole = await Whole(tmp_path).start()
    broken = {key: dataclasses.replace(api, handle=fail_later if is_async else fail) for key, api in APIS.items()}
    monkeypatch.setattr(dispatch, "APIS", MappingProxyType(broken))
    request = MetadataRequest(topics=[MetadataRequestTopic(name="a"), MetadataRequestTopic(name="b")])
    with caplog.at_level(logging.ERROR):
        response = await whole.ask(request, 1)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", code), ("b", code)]
    assert whole.metrics.unexpected_errors == bugs
    assert len(caplog.records) == bugs
    assert whole.metrics.requests[3].errors == {code.name: 2}


@pytest.mark.parametrize("key", sorted(APIS))
async def test_every_api_can_say_an_error_in_every_version(key: int) -> None:
    api = APIS[key]
    for version in range(api.lowest, api.highest + 1):
        request = api.request()
        if hasattr(request, "acks"):
            request.acks = 1
        response = error_response(request, api.response, version, ErrorCode.UNKNOWN_SERVER_ERROR)
        assert type(response) is api.response
        assert encode_response(response, version, 1)


async def test_requests_and_answers_are_counted(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    request = MetadataRequest(topics=[])
    size = sum(len(part) for part in encode_request(request, 4, 77, "test"))  # type: ignore[arg-type]  # bytes
    answer = whole.send(request, 4)
    metrics = whole.metrics.requests[3]
    assert metrics.requests == {4: 1}
    assert (metrics.request_bytes, metrics.response_bytes) == (size, len(answer))
    assert metrics.total_ns.count == 1
