"""Headers of requests and responses, and how messages become parts."""

from __future__ import annotations

import pkgutil

import pytest

from pybroker.protocol import messages
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import (
    DecodeError,
    EncodeError,
    RequestHeader,
    decode,
    decode_request_header,
    decode_response,
    encode,
    encode_request,
    encode_response,
    message_versions,
    request_class,
    response_class,
)
from pybroker.protocol.messages import MESSAGES
from pybroker.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pybroker.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    ForgottenTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.protocol.parts import Part, parts_bytes, parts_size
from pybroker.protocol.schema import schema_of
from pybroker.protocol.wire import JOIN_BYTES_MAX
from testing.scenes.late_part import LatePart

LARGE = bytes(range(256)) * (JOIN_BYTES_MAX // 256) + b"x"


def frame(text: str) -> memoryview:
    return memoryview(bytes.fromhex(text))


@pytest.mark.parametrize(
    ("text", "header", "body"),
    [
        ("0000 0000 00000102 0002 6d65", RequestHeader(0, 0, 258, "me"), 12),
        ("0001 000b 00000102 ffff", RequestHeader(1, 11, 258, None), 10),
        ("0001 000c 00000102 0002 6d65 00", RequestHeader(1, 12, 258, "me"), 13),  # these bytes are Kafka's
        ("0001 000c 00000102 0002 6d65 01 05 02 abcd ff", RequestHeader(1, 12, 258, "me"), 17),
        ("0012 0003 7fffffff 0000 00", RequestHeader(18, 3, 2**31 - 1, ""), 11),
        ("0007 0000 00000005", RequestHeader(7, 0, 5, None), 8),  # ControlledShutdown v0 has no client id
        ("0012 7fff 00000005 0002 6d65 00", RequestHeader(18, 32767, 5, "me"), 12),
        ("0012 7fff 00000005", RequestHeader(18, 32767, 5, None), 8),
        ("0012 7fff 00000005 7000 6d", RequestHeader(18, 32767, 5, None), 8),
        ("7001 0000 00000005 0001 ff", RequestHeader(0x7001, 0, 5, "�"), 11),
        ("ffff ffff 00000005 ffff", RequestHeader(-1, -1, 5, None), 8),
    ],
)
def test_request_headers(text: str, header: RequestHeader, body: int) -> None:
    assert decode_request_header(frame(text)) == (header, body)


@pytest.mark.parametrize("text", ["0001 000c 00000102 0002 6d65 00", "0001 000b 00000102 0002 6d65"])
def test_a_truncated_request_header_is_refused(text: str) -> None:
    whole = frame(text)
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            decode_request_header(whole[:size])


@pytest.mark.parametrize("size", range(8))
def test_without_a_correlation_id_there_is_nothing_to_respond_to(size: int) -> None:
    with pytest.raises(DecodeError):
        decode_request_header(frame("7001 0000 00000005")[:size])


@pytest.mark.parametrize(
    "text",
    [
        "0001 000b 00000102 fffe",
        "0001 000b 00000102 0001 ff",
        "0001 000c 00000102 0000 808080808000",
        "0001 000c 00000102 0000 01 05 70",
    ],
)
def test_a_damaged_request_header_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        decode_request_header(frame(text))


@pytest.mark.parametrize(
    ("version", "start"),
    [
        (0, "0000000c 00000007 0000 00000000"),
        (2, "00000010 00000007 0000 00000000 00000000"),
        (3, "0000000c 00000007 0000 01 00000000 00"),
    ],
)
def test_the_response_to_api_versions_has_header_v0_in_every_version(version: int, start: str) -> None:
    parts = encode_response(ApiVersionsResponse(), version, 7)
    expected = bytes.fromhex(start)
    assert parts == [(len(expected) - 4).to_bytes(4) + expected[4:]]


@pytest.mark.parametrize(("version", "header"), [(8, "00000009"), (9, "00000009 00")])
def test_other_responses_have_header_v1_when_flexible(version: int, header: str) -> None:
    (data,) = encode_response(MetadataResponse(), version, 9)
    assert isinstance(data, bytes)
    assert int.from_bytes(data[:4]) == len(data) - 4
    assert data[4:].startswith(bytes.fromhex(header))
    assert decode_response(MetadataResponse, version, memoryview(data)[4:]) == (9, MetadataResponse())


@pytest.mark.parametrize("version", [0, 3, 5])
def test_requests_carry_size_and_header(version: int) -> None:
    request = ApiVersionsRequest()
    data = memoryview(parts_bytes(encode_request(request, version, correlation_id=3, client_id="client")))
    assert int.from_bytes(data[:4]) == len(data) - 4
    header, body = decode_request_header(data[4:])
    assert header == RequestHeader(ApiKey.API_VERSIONS, version, 3, "client")
    assert decode(ApiVersionsRequest, version, data[4:], body) == request


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0003 0001 000000", "the request header ends too early"),
        ("0003 0001 00000102 0004 6d65", "4 bytes or elements do not fit into the bytes that are left"),
        ("0003 0001 00000102 0001 ff", "the request header holds text that is not UTF-8"),
    ],
)
def test_a_damaged_request_header_is_described_for_a_person(text: str, reason: str) -> None:
    with pytest.raises(DecodeError) as raised:
        decode_request_header(frame(text))
    assert str(raised.value) == reason


@pytest.mark.parametrize("size", range(5))
def test_a_truncated_response_is_refused(size: int) -> None:
    with pytest.raises(DecodeError):
        decode_response(MetadataResponse, 9, memoryview(bytes(size)))


def fetched(*records: Part | list[Part] | None) -> FetchResponse:
    partitions = [PartitionData(partition_index=number, records=one) for number, one in enumerate(records)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


@pytest.mark.parametrize("version", [0, 4, 11, 12])
def test_large_records_are_parts_of_their_own_and_small_ones_are_joined(version: int) -> None:
    view = memoryview(LARGE)
    parts = encode_response(fetched(b"small", view, None, b"", LARGE), version, 1)
    assert [type(part) for part in parts] == [bytes, memoryview, bytes, bytes, *([bytes] if version >= 12 else [])]
    assert parts[1] is view
    assert parts[3] is LARGE
    data = memoryview(parts_bytes(parts))
    assert int.from_bytes(data[:4]) == len(data) - 4
    _, response = decode_response(FetchResponse, version, data[4:])
    assert [one.records for one in response.responses[0].partitions] == [b"small", LARGE, None, b"", LARGE]


@pytest.mark.parametrize("version", [0, 4, 12])
def test_late_parts_count_with_their_size_and_are_not_pulled_by_the_codec(version: int) -> None:
    late, empty = LatePart(b"0123456789", 3), LatePart(b"")
    records: list[Part] = [b"ab", late, memoryview(LARGE), bytearray(b"c")]
    parts = encode_response(fetched(records, empty), version, 1)
    assert late in parts
    assert late.position == 0
    size = parts_size(parts)
    data = memoryview(parts_bytes(parts))
    assert len(data) == size
    assert int.from_bytes(data[:4]) == size - 4
    _, response = decode_response(FetchResponse, version, data[4:])
    assert response.responses[0].partitions[0].records == b"ab0123456789" + LARGE + b"c"
    assert response.responses[0].partitions[1].records == b""


def test_a_response_that_ends_with_large_records_has_no_empty_part() -> None:
    parts = encode_response(fetched(LARGE), 4, 1)
    assert [type(part) for part in parts] == [bytes, bytes]
    assert encode(ApiVersionsRequest(), 0) == [b""]


def test_a_value_that_the_version_has_no_place_for_is_refused_unless_it_is_ignorable() -> None:
    assert parts_bytes(encode(FetchRequest(max_bytes=5, isolation_level=1, rack_id="r"), 0)), "ignorable"
    for version, request in (
        (6, FetchRequest(forgotten_topics_data=[ForgottenTopic(topic="t")])),
        (14, FetchRequest(replica_state=ReplicaState(replica_id=1))),
        (15, FetchRequest(replica_id=1)),
    ):
        with pytest.raises(EncodeError, match=f"version {version} has no field"):
            encode(request, version)
    with pytest.raises(EncodeError, match="no field transactional_id"):
        encode(ProduceRequest(transactional_id="t"), 2)
    with pytest.raises(EncodeError, match="no field allow_auto_topic_creation"):
        encode(MetadataRequest(allow_auto_topic_creation=False), 3)
    with pytest.raises(EncodeError, match="no field current_leader"):
        encode(_with_leader(LeaderIdAndEpoch(leader_id=1)), 11)
    assert encode(_with_leader(LeaderIdAndEpoch()), 11) == encode(fetched(None), 11), "equal to the default"


def _with_leader(leader: LeaderIdAndEpoch) -> FetchResponse:
    partition = PartitionData(current_leader=leader)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (MetadataRequest(topics=None), 0),
        (MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9),
        (MetadataRequest(topics=[MetadataRequestTopic(name="\ud800")]), 9),
        (MetadataRequest(topics=[MetadataRequestTopic(name="x" * 40_000)]), 1),
        (MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"short")]), 10),
        (MetadataRequest(topics=["not a struct"]), 1),  # type: ignore[list-item]  # what is refused
        (ApiVersionsResponse(error_code=2**15), 0),
        (ApiVersionsResponse(api_keys=[ApiVersion(api_key="1")]), 0),  # type: ignore[arg-type]  # what is refused
        (ProduceRequest(topic_data=[TopicProduceData(partition_data=[PartitionProduceData(records="text")])]), 3),  # type: ignore[arg-type]  # what is refused
        (FetchRequest(), 19),
        (FetchRequest(), -1),
    ],
)
def test_values_that_do_not_fit_are_refused(message: object, version: int) -> None:
    with pytest.raises(EncodeError):
        encode(message, version)


def test_what_is_not_a_message_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError):
        encode(object(), 0)
    with pytest.raises(TypeError):
        decode(dict, 0, memoryview(b""))


def test_messages_by_key() -> None:
    assert request_class(1) is FetchRequest
    assert response_class(ApiKey.FETCH) is FetchResponse
    assert message_versions(0) == (0, 13)
    for unknown in (1000, -1, ApiKey.VOTE):
        with pytest.raises(KeyError):
            request_class(unknown)


@pytest.mark.parametrize("key", MESSAGES, ids=lambda key: ApiKey(key).name)
def test_what_is_known_before_an_import_is_what_is_declared(key: int) -> None:
    for cls in (request_class(key), response_class(key)):
        schema = schema_of(cls)
        assert schema.api_key == key
        assert (schema.versions, schema.flexible) == MESSAGES[key]


def test_every_declaration_can_be_found() -> None:
    modules = {module.name for module in pkgutil.iter_modules(messages.__path__)}
    records = {"group_records", "metadata_records", "other_metadata_records", "quorum_records", "transaction_records"}
    assert modules == {ApiKey(key).name.lower() for key in MESSAGES} | {"consumer_protocol"} | records
    assert list(MESSAGES) == sorted(MESSAGES)
