"""Every message in every version: there and back, and every kind of damage."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.protocol.codec import (
    DecodeError,
    EncodeError,
    TooManyElementsError,
    decode,
    encode,
    encode_response,
)
from pybroker.protocol.codec import (
    encoded as encoded_once,
)
from pybroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pybroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from pybroker.protocol.messages.fetch import FetchRequest, FetchResponse
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from pybroker.protocol.messages.produce import ProduceRequest
from pybroker.protocol.parts import parts_bytes
from pybroker.protocol.schema import schema_of
from pybroker.protocol.wire import uvarint
from testing.cases import for_each_case, in_case
from testing.scenes.messages import CLASSES, VERSIONED, full, messages, name_of, versions_of

every_class = pytest.mark.parametrize("cls", CLASSES)  # an example has a message of each version: a run of hypothesis costs more
for_each_version = for_each_case(VERSIONED, name_of)


def encoded(message: object, version: int) -> bytes:
    return parts_bytes(encode(message, version))


@every_class
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_what_was_encoded_decodes_to_the_same(cls: type, data: st.DataObject) -> None:
    for version in versions_of(cls):
        message = data.draw(messages(cls, version))
        assert decode(cls, version, memoryview(encoded(message, version))) == message, version


@for_each_version
def test_a_message_with_all_fields_set_decodes_to_the_same_from_the_middle_of_a_buffer(case: tuple[type, int]) -> None:
    cls, version = case
    message = full(cls, version)
    assert decode(cls, version, memoryview(b"before" + encoded(message, version)), 6) == message


@for_each_version
def test_every_truncation_is_refused(case: tuple[type, int]) -> None:
    cls, version = case
    data = encoded(full(cls, version), version)
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            decode(cls, version, memoryview(data)[:size])


@for_each_version
def test_bytes_to_spare_are_refused_but_behind_requests(case: tuple[type, int]) -> None:
    cls, version = case
    for message in (cls(), full(cls, version)):
        data = memoryview(encoded(message, version) + b"\0")
        if schema_of(cls).is_request:
            assert decode(cls, version, data) == message
        else:
            with pytest.raises(DecodeError, match="too many"):
                decode(cls, version, data)


@every_class
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_damaged_bytes_decode_or_are_refused_but_nothing_else_happens(cls: type, data: st.DataObject) -> None:
    for version in versions_of(cls):
        damaged = bytearray(encoded(full(cls, version), version))
        for _ in range(data.draw(st.integers(1, 3))) if damaged else ():
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        with in_case(version):
            try:
                message: Any = decode(cls, version, memoryview(damaged))
            except DecodeError:
                continue
            assert decode(cls, version, memoryview(encoded(message, version))) == message


@settings(max_examples=200, deadline=None)
@given(noise=st.binary(max_size=100), target=st.sampled_from(VERSIONED))
def test_noise_decodes_or_is_refused(noise: bytes, target: tuple[type, int]) -> None:
    cls, version = target
    try:
        message: Any = decode(cls, version, memoryview(noise))
    except DecodeError:
        return
    assert type(message) is cls


@pytest.mark.parametrize(
    ("cls", "version", "start"),
    [
        (MetadataRequest, 1, "7fffffff"),  # strings of at least 2 bytes
        (MetadataRequest, 12, "ffffffff0f"),
        (FetchRequest, 7, "ffffffff 00000001 00000001 00000001 00 00000000 00000000 7fffffff"),
        (FetchRequest, 7, "ffffffff 00000001 00000001 00000001 00 00000000 00000000 00000000 00000001 0001 61 7fffffff"),
        (ApiVersionsResponse, 3, "0000 ffffffff0f"),
        (ProduceRequest, 3, "ffff 0001 00000001 7fffffff"),
    ],
)
def test_a_huge_count_is_refused_before_anything_is_allocated_for_it(cls: type, version: int, start: str) -> None:
    frame = memoryview(bytes.fromhex(start) + bytes(60))
    with pytest.raises(DecodeError):  # compiles the decoder
        decode(cls, version, frame)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="do not fit"):
            decode(cls, version, frame)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000


@pytest.mark.parametrize(
    ("cls", "version", "data", "reason"),
    [
        (MetadataRequest, 0, "ffffffff", "null"),
        (MetadataRequest, 1, "fffffffe", "length of -2"),
        (MetadataRequest, 1, "00000001 ffff", "null"),  # a name, not null before v10
        (MetadataRequest, 9, "00", "v9 ends too early"),
        (ApiVersionsRequest, 3, "00 02 61 00", "null"),
        (ApiVersionsRequest, 3, "02 ff 02 61 00", "v3 holds text that is not UTF-8"),
        (ApiVersionsRequest, 3, "02 c0 02 61 00", "v3 holds text that is not UTF-8"),
        (ApiVersionsRequest, 3, "8080808080 00", "more than 5 bytes"),
        (ApiVersionsRequest, 3, "ffffffff1f", "more than 32 bits"),
        (ApiVersionsRequest, 3, "02 61 02 61 01 00 ffffffff0f", "do not fit"),  # a tagged field beyond the end
        (DescribeTopicPartitionsRequest, 0, "01 00000000 02 00", "length of 2"),  # neither null nor there
        (ApiVersionsResponse, 3, "0000 01 00000000 01 01 09 000000000000000000 00", "too many"),  # a tag larger than its field
        (ApiVersionsResponse, 3, "0000 01 00000000 01 01 07 00000000000000 00", "v3 ends too early"),  # and one smaller
    ],
)
def test_what_the_protocol_forbids_is_refused(cls: type, version: int, data: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode(cls, version, memoryview(bytes.fromhex(data)))


@pytest.mark.parametrize("version", [3, 4, 5])
def test_unknown_tagged_fields_are_skipped(version: int) -> None:
    request = ApiVersionsRequest(client_software_name="n", client_software_version="v")
    plain = encoded(request, version)
    unknown = bytes.fromhex("02 05 03 616263 8101 00")  # tag 5 of 3 bytes, tag 129 of none
    assert plain.endswith(b"\0")
    assert decode(ApiVersionsRequest, version, memoryview(plain[:-1] + unknown)) == request


def test_unknown_tagged_fields_are_skipped_among_known_ones() -> None:
    data = "0000 01 00000000 03 01 08 0000000000000009 63 02 ffff 03 01 01"
    response = decode(ApiVersionsResponse, 3, memoryview(bytes.fromhex(data)))
    assert response == ApiVersionsResponse(finalized_features_epoch=9, zk_migration_ready=True)


def test_more_than_127_unknown_tagged_fields_are_skipped() -> None:
    many = bytes.fromhex("02 6e 02 76 c801") + b"".join(bytes([tag % 100, 1, 0]) for tag in range(200))
    request = decode(ApiVersionsRequest, 3, memoryview(many))
    assert request == ApiVersionsRequest(client_software_name="n", client_software_version="v")


@pytest.mark.parametrize("version", [0, 2, 3, 8, 9, 13])
def test_records_are_a_view_into_the_frame(version: int) -> None:
    frame = bytearray(encoded(full(ProduceRequest, version), version))
    records: Any = decode(ProduceRequest, version, memoryview(frame)).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert not records.readonly
    records[:7] = b"patched"
    assert b"patched" in frame


@pytest.mark.parametrize("cls", [FetchResponse, ProduceRequest])
def test_a_version_that_does_not_exist_is_refused(cls: type) -> None:
    for version in (-1, 19, 1000):
        with pytest.raises(DecodeError, match="no version"):
            decode(cls, version, memoryview(b""))


def names(*sizes: int) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name="x" * size) for size in sizes], allow_auto_topic_creation=False)


@pytest.mark.parametrize(
    ("request_", "elements"), [(names(*[1] * 5000), 5000), (names(1, 3 * 1024, 1023), 3 + 3)], ids=["many", "large"]
)
def test_a_message_of_more_elements_than_it_may_have_is_refused(request_: MetadataRequest, elements: int) -> None:
    data = memoryview(encoded(request_, 12))
    assert decode(MetadataRequest, 12, data, elements_max=elements) == request_
    with pytest.raises(TooManyElementsError):
        decode(MetadataRequest, 12, data, elements_max=elements - 1)
    assert decode(MetadataRequest, 12, data) == request_, "the bound is that of one call"


def test_a_count_beyond_the_bound_takes_no_memory() -> None:
    count = 50_000_000
    data = memoryview(count.to_bytes(4) + bytes(2 * count))
    tracemalloc.start()
    try:
        with pytest.raises(TooManyElementsError):
            decode(MetadataRequest, 1, data, elements_max=1000)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_list_may_have_messages_that_are_encoded_already() -> None:
    topics = [MetadataResponseTopic(error_code=code, name=f"t{code}", is_internal=False) for code in (0, 3)]
    for version in (1, 12):
        done: list[Any] = [encoded_once(topic, MetadataResponse, version) for topic in topics]
        assert [one.error_code for one in done] == [0, 3]
        mixed = MetadataResponse(topics=[topics[0], done[1]])
        expected = encode_response(MetadataResponse(topics=topics), version, 1)
        assert encode_response(MetadataResponse(topics=done), version, 1) == expected
        assert encode_response(mixed, version, 1) == expected


@pytest.mark.parametrize("size", [0x7FFF, 0x8000])
def test_a_text_is_as_long_as_kafka_allows(size: int) -> None:
    head = b"\x02" + bytes(16) + uvarint(size + 1)
    data = memoryview(head + b"x" * size + b"\0\0\0\0")
    if size == 0x7FFF:
        (topic,) = decode(MetadataRequest, 12, data).topics or [MetadataRequestTopic()]
        assert len(topic.name or "") == size
        assert encoded(names(size), 12)
    else:
        with pytest.raises(DecodeError, match="a length of 32768"):
            decode(MetadataRequest, 12, data)
        with pytest.raises(EncodeError):
            encoded(names(size), 12)
