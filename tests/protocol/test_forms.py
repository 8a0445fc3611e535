"""Requests that are like one before: a form finds just those whose decoding would give the same, and the records in them."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker import native
from pybroker.protocol import _forms_python, forms
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import decode, decode_request_header
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.protocol.schema import schema_of
from pybroker.protocol.wire import DecodeError
from testing.scenes.api.whole import frame_of

NATIVE = native.extension("pybroker.protocol._forms_native")
FORMS = [pytest.param(_forms_python, id="python"), *([] if NATIVE is None else [pytest.param(NATIVE, id="native")])]
FLEXIBLE = schema_of(ProduceRequest).flexible
VERSIONS = range(13)


@pytest.fixture(scope="module", autouse=True, params=FORMS)
def twin(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "RequestForm", request.param.RequestForm)
        yield request.param


def request_of(records: bytes | None, index: int = 3, name: str = "orders", acks: int = 1) -> ProduceRequest:
    partition = PartitionProduceData(index=index, records=records)
    topic = TopicProduceData(name=name, partition_data=[partition])
    return ProduceRequest(acks=acks, timeout_ms=1500, topic_data=[topic])


def learned(version: int, records: bytes = b"the first records") -> forms.RequestForm:
    frame = frame_of(request_of(records), version)
    before = bytes(frame)
    form = form_of(frame, version)
    assert form is not None
    assert bytes(frame) == before
    return form


def decoded(frame: memoryview) -> ProduceRequest:
    header, body_offset = decode_request_header(frame)
    assert header.api_key == ApiKey.PRODUCE
    request = decode(ProduceRequest, header.api_version, frame, body_offset)
    assert isinstance(request, ProduceRequest)
    return request


def form_of(frame: memoryview, version: int) -> forms.RequestForm | None:
    (topic,) = decoded(frame).topic_data
    (partition,) = topic.partition_data
    assert isinstance(partition.records, memoryview)
    return forms.form_of(frame, partition.index, partition.records, is_flexible=FLEXIBLE.has(version))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_383, 16_384, 70_000])
def test_a_request_with_other_records_and_another_partition_is_found(version: int, size: int) -> None:
    form = learned(version)
    records = bytes(number % 251 for number in range(size))
    frame = frame_of(request_of(records, index=-7), version)
    frame[4:8] = (-9).to_bytes(4, signed=True)
    found = form.records_in(frame)
    assert found is not None
    assert (bytes(found), form.number, form.correlation_id) == (records, -7, -9)
    if size:
        found[0] ^= 1
        (topic,) = decoded(frame).topic_data
        (partition,) = topic.partition_data
        assert partition.records == found, "the records are a part of the frame, not a copy"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_differs_elsewhere_is_not_found(version: int) -> None:
    form = learned(version)
    for other in (
        frame_of(request_of(b"r" * 20, name="Orders"), version),
        frame_of(request_of(b"r" * 20, name="orders2"), version),
        frame_of(request_of(b"r" * 20, acks=-1), version),
        frame_of(request_of(None), version),
        frame_of(request_of(b"r" * 20), (version + 1) % 13),
        memoryview(bytearray(frame_of(request_of(b"r" * 20), version)) + b"\0"),
    ):
        assert form.records_in(other) is None


@given(data=st.data(), version=st.sampled_from(VERSIONS))
@settings(max_examples=150)
def test_what_is_found_is_what_decoding_gives(data: st.DataObject, version: int) -> None:
    form = learned(version)
    first = request_of(b"")
    frame = bytearray(frame_of(request_of(b"r" * data.draw(st.integers(0, 300))), version))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.sampled_from([0, 0, 0, 1, 2, 5, len(frame)]))
    view = memoryview(frame)[: len(frame) - cut]
    found = form.records_in(view)
    if found is None:
        return
    header, _ = decode_request_header(view)
    request = decoded(view)
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert (form.number, form.correlation_id, found) == (partition.index, header.correlation_id, partition.records)
    partition.index, partition.records = first.topic_data[0].partition_data[0].index, b""
    assert request == first


@pytest.mark.parametrize("version", VERSIONS)
def test_every_truncated_request_is_left_to_the_decoder(version: int) -> None:
    form = learned(version)
    frame = frame_of(request_of(b"records"), version)
    for size in range(len(frame)):
        assert form.records_in(frame[:size]) is None


def test_a_length_that_is_no_varint_of_32_bits_is_left_to_the_decoder() -> None:
    form = learned(9)
    frame = bytearray(frame_of(request_of(b"records"), 9))
    at = bytes(frame).index(b"records") - 1
    for length in (b"\xff\xff\xff\xff\xff\x01", b"\xff\xff\xff\xff\x1f", b"\x88\x80\x80\x80\x80\x00"):
        longer = memoryview(bytearray(frame[:at] + length + frame[at + 1 :]))
        assert form.records_in(longer) is None
        with pytest.raises(DecodeError):
            decoded(longer)
    padded = memoryview(bytearray(frame[:at] + b"\x88\x80\x00" + frame[at + 1 :]))
    assert bytes(form.records_in(padded) or b"") == b"records"
    assert decoded(padded).topic_data[0].partition_data[0].records == b"records"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_place_of_records_that_stand_twice_is_the_true_one(version: int) -> None:
    records = b"\0" * 9
    form = learned(version, records)
    frame = frame_of(request_of(b"others"), version)
    assert bytes(form.records_in(frame) or b"") == b"others"


def test_a_request_without_records_or_with_a_long_head_has_no_form() -> None:
    for request in (request_of(b""), request_of(b"r", name="n" * forms.HEAD_BYTES_MAX)):
        assert form_of(frame_of(request, 7), 7) is None


def test_a_frame_that_is_not_writable_has_no_form() -> None:
    assert form_of(frame_of(request_of(b"records"), 7).toreadonly(), 7) is None


def test_a_request_with_much_behind_its_records_has_no_form() -> None:
    frame = frame_of(request_of(b"records"), 9)
    tagged = memoryview(bytearray(bytes(frame[:-1]) + b"\x01\x63\x08" + b"\0" * 8))  # the request's own tagged field 99
    assert form_of(tagged, 9) is None


def test_a_head_without_a_whole_header_is_refused(twin: ModuleType) -> None:
    with pytest.raises(ValueError, match="begins with a header"):
        twin.RequestForm(b"1234567", b"", False)
