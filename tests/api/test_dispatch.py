"""The way of a frame: frames that are no request, APIs that are not served, and exceptions of handlers."""

from __future__ import annotations

import dataclasses
import errno
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from pybroker.api import dispatch
from pybroker.api.registry import APIS, load_api
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import EncodeError, decode_response, encode_request
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pybroker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from pybroker.protocol.schema import schema_of
from testing.scenes.api.whole import Whole, settled


@pytest.mark.parametrize("version", range(6))
async def test_api_versions_lists_what_is_registered(tmp_path: Path, version: int) -> None:
    whole = await Whole(tmp_path).start()
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    response = await whole.ask(request, version)
    listed = {(api.api_key, api.min_version, api.max_version) for api in response.api_keys}
    assert listed == {(api.key, api.lowest, api.highest) for api in APIS.values()}


async def test_an_unknown_version_of_api_versions_gets_a_response_in_version_0(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    frame = bytes.fromhex("0012 7fff 00000007 ffff 00 ff ff")  # key 18, version 32767, and an unknown body
    data = whole.dispatcher.handle(whole.connection, memoryview(frame))
    assert isinstance(data, bytes)
    correlation_id, response = decode_response(ApiVersionsResponse, 0, memoryview(data)[4:])
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
        whole.dispatcher.handle(whole.connection, memoryview(bytes.fromhex(frame)))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ("0003 0001 00000007 ffff", "MetadataRequest v1 ends too early"),
        ("0012 0003 00000007 ffff 00", "ApiVersionsRequest v3 ends too early"),
        ("0003 0001 00000007 ffff 00000001 0001 ff", "MetadataRequest v1 holds text that is not UTF-8"),
        (
            "0003 0001 00000007 ffff 00000001 0005 61",
            "MetadataRequest v1: 5 bytes or elements do not fit into the bytes that are left",
        ),
        ("0003 0001 0000", "the request header ends too early"),
    ],
)
async def test_why_a_request_cannot_be_read_is_described_in_a_persons_words(tmp_path: Path, frame: str, reason: str) -> None:
    whole = await Whole(tmp_path).start()
    with pytest.raises(ProtocolViolation) as raised:
        whole.dispatcher.handle(whole.connection, memoryview(bytes.fromhex(frame)))
    assert str(raised.value) == f"a request that cannot be read: {reason}"


@pytest.mark.parametrize(
    ("error", "code", "bugs"),
    [
        (KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), ErrorCode.KAFKA_STORAGE_ERROR, 0),
        (KeyError(1), ErrorCode.UNKNOWN_SERVER_ERROR, 1),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_a_handler_raises_is_in_the_response(
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
    broken = dataclasses.replace(load_api(ApiKey.METADATA), handle=fail_later if is_async else fail)
    monkeypatch.setattr(dispatch, "load_api", {ApiKey.METADATA: broken}.__getitem__)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="a"), MetadataRequestTopic(name="b")])
    with caplog.at_level(logging.ERROR):
        response = await whole.ask(request, 1)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", code), ("b", code)]
    assert whole.metrics.unexpected_errors == bugs
    assert len(caplog.records) == bugs
    assert whole.metrics.requests[3].errors == {code.name: 2}


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_response_that_cannot_be_encoded_is_an_error_of_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    def respond(*_: Any) -> MetadataResponse:
        return MetadataResponse(cluster_id="x" * 40_000)

    async def respond_later(*_: Any) -> MetadataResponse:
        return respond()

    whole = await Whole(tmp_path).start()
    broken = dataclasses.replace(load_api(ApiKey.METADATA), handle=respond_later if is_async else respond)
    monkeypatch.setattr(dispatch, "load_api", {ApiKey.METADATA: broken}.__getitem__)
    with caplog.at_level(logging.ERROR):
        response = await whole.ask(MetadataRequest(topics=[MetadataRequestTopic(name="a")]), 4)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert (whole.metrics.unexpected_errors, len(caplog.records)) == (1, 1)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_request_whose_error_cannot_be_sent_either_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    def fail(*_: Any) -> Any:
        raise EncodeError("nothing can be encoded")

    async def respond_later(*_: Any) -> MetadataResponse:
        return respond()

    def respond(*_: Any) -> MetadataResponse:
        return MetadataResponse()

    whole = await Whole(tmp_path).start()
    broken = dataclasses.replace(load_api(ApiKey.METADATA), handle=respond_later if is_async else respond)
    monkeypatch.setattr(dispatch, "load_api", {ApiKey.METADATA: broken}.__getitem__)
    monkeypatch.setattr(schema_of(MetadataResponse), "encoders", {})
    for module in (dispatch.__name__, dispatch.Dispatcher.__base__.__module__):
        monkeypatch.setattr(sys.modules[module], "encode_response", fail)
    with pytest.raises(EncodeError):
        await settled(whole.send(MetadataRequest(topics=[]), 4))


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "shortage",
    [MemoryError(), RuntimeError("can't start new thread"), OSError(errno.EMFILE, "")],
    ids=["memory", "thread", "file"],
)
async def test_a_request_that_a_shortage_fails_is_no_bug_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_async: bool, shortage: Exception
) -> None:
    def fail(*_: Any) -> Any:
        raise shortage

    async def fail_later(*_: Any) -> None:
        raise shortage

    whole = await Whole(tmp_path).start()
    broken = dataclasses.replace(load_api(ApiKey.METADATA), handle=fail_later if is_async else fail)
    monkeypatch.setattr(dispatch, "load_api", {ApiKey.METADATA: broken}.__getitem__)
    with pytest.raises(type(shortage)):
        await settled(whole.send(MetadataRequest(topics=[]), 4))
    assert (whole.metrics.unexpected_errors, caplog.records) == (0, [])


async def test_an_error_text_that_is_too_long_is_a_response(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    configs = [CreatableTopicConfig(name="retention.ms", value="x" * 32_700)]
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1, configs=configs)], timeout_ms=1000
    )
    for version in (4, 5):
        (topic,) = (await whole.ask(request, version)).topics
        assert (topic.name, topic.error_code) == ("a", ErrorCode.UNKNOWN_SERVER_ERROR)


@pytest.mark.parametrize("key", sorted(APIS))
def test_every_api_that_is_served_has_its_handler(key: int) -> None:
    api = load_api(key)
    assert (api.key, api.name, api.lowest, api.highest) == dataclasses.astuple(APIS[key])
    assert api.handle == sys.modules[f"pybroker.api.handlers.{ApiKey(key).name.lower()}"].handle
    assert api.request.__name__ == f"{api.name}Request"


def test_a_key_that_is_not_served_has_no_handler() -> None:
    with pytest.raises(KeyError):
        load_api(ApiKey.LEADER_AND_ISR)


async def test_requests_and_responses_are_counted(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    request = MetadataRequest(topics=[])
    size = sum(len(part) for part in encode_request(request, 4, correlation_id=77, client_id="test"))  # type: ignore[arg-type, misc]  # bytes
    data = whole.send(request, 4)
    metrics = whole.metrics.requests[3]
    assert metrics.requests == {4: 1}
    assert (metrics.request_bytes, metrics.response_bytes) == (size, len(data))
    assert metrics.total_ns.count == 1
