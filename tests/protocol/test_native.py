"""The native codec does what the one in Python does, with everything that comes in and everything that is to go out."""

from __future__ import annotations

import functools
import os
import struct
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker import native
from pybroker.protocol import _codec_python
from pybroker.protocol.codec import maker
from pybroker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch, PartitionData
from pybroker.protocol.messages.metadata import MetadataResponse
from pybroker.protocol.parts import SendPart, parts_bytes
from pybroker.protocol.plan import make_plan
from pybroker.protocol.schema import schema_of
from pybroker.protocol.wire import JOIN_BYTES_MAX, DecodeError, EncodeError
from testing.cases import for_each_case
from testing.scenes.late_part import LatePart
from testing.scenes.messages import CLASSES, VERSIONED, full, messages, name_of, versions_of

NATIVE = native.extension("pybroker.protocol._codec_native")
pytestmark = pytest.mark.skipif(NATIVE is None, reason="the native part was not built, or is not wanted")

EDGES = [
    (cls, version)
    for cls, version in VERSIONED
    if version in (schema_of(cls).versions.lowest, schema_of(cls).flexible.lowest, schema_of(cls).versions.highest)
]
DAMAGE = (struct.error, IndexError)
UNFIT = (struct.error, TypeError, AttributeError, OverflowError, UnicodeEncodeError)


@pytest.fixture(scope="module", autouse=True)
def twin() -> None:
    """Replace the fixture that runs each test once for each twin: these tests run both, side by side."""


def decoded(decode: Any, data: bytes | bytearray) -> object:
    """Return the message, or the exception as text; kinds of exceptions that the codec treats alike are equal here."""
    try:
        return decode(memoryview(data), 0)
    except DAMAGE:
        return "ends too early"
    except (DecodeError, UnicodeDecodeError) as error:
        return type(error), str(error)


def encoded(encode: Any, message: object, head: bytes | None = None) -> object:
    try:
        return encode(message, head)
    except UNFIT:
        return "unfit"
    except EncodeError as error:
        return str(error)


@functools.cache
def both(cls: type, version: int) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return the decoders and the encoders, native and in Python."""
    assert NATIVE is not None
    plans = [make_plan(schema_of(cls), version, twin.Plan) for twin in (NATIVE, _codec_python)]
    return (plans[0].decode, plans[1].decode), (plans[0].encode, plans[1].encode)


@pytest.mark.parametrize("cls", CLASSES)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_both_write_the_same_and_see_the_same_in_damaged_bytes(cls: type, data: st.DataObject) -> None:
    for version in versions_of(cls):
        decoders, encoders = both(cls, version)
        message = data.draw(st.just(full(cls, version)) | messages(cls, version))
        head = data.draw(st.none() | st.binary(max_size=9))
        by_native, by_python = (encoded(encode, message, head) for encode in encoders)
        assert by_native == by_python, version
        body = bytearray(parts_bytes(encoders[0](message, None)))
        for _ in range(data.draw(st.integers(0, 3)) if body else 0):
            position = data.draw(st.integers(0, len(body) - 1))
            body[position] = data.draw(st.integers(0, 255) | st.sampled_from([0, 1, 127, 128, 255]))
        body = body[: data.draw(st.integers(0, len(body)))] if data.draw(st.booleans()) else body
        assert decoded(decoders[0], body) == decoded(decoders[1], body), version


@for_each_case(EDGES, name_of)
def test_both_refuse_the_same_values(case: tuple[type, int]) -> None:
    """Each field of a message in turn gets what it cannot be."""
    cls, version = case
    _, encoders = both(cls, version)
    for one in schema_of(cls).fields:
        for value in (None, -1, 2**63, 2**31, "text", b"bytes", b"x" * 16, 1.5, [], [None], [1], ["text"], "\ud800", object()):
            message = full(cls, version)
            setattr(message, one.name, value)
            by_native, by_python = (encoded(encode, message) for encode in encoders)
            assert by_native == by_python, (one.name, value)


def response(*records: Any) -> FetchResponse:
    partitions = [PartitionData(partition_index=index, records=one) for index, one in enumerate(records)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


LARGE = b"l" * (JOIN_BYTES_MAX + 1)


@pytest.mark.parametrize("version", [4, 11, 12, 17])
@pytest.mark.parametrize("head", [None, b"", b"head"])
@pytest.mark.parametrize(
    "records",
    [
        [LARGE],
        [b"small", LARGE, memoryview(LARGE), bytearray(LARGE), b"small", b""],
        [LatePart(b"late"), LatePart(LARGE), None],
        [[b"some", LatePart(b"late"), LARGE], (LatePart(b"one"), b"two"), []],
        [b"s" * JOIN_BYTES_MAX] * 9,
    ],
)
def test_large_records_and_late_parts_stand_where_they_belong(version: int, head: bytes | None, records: list[Any]) -> None:
    _, encoders = both(FetchResponse, version)
    by_native, by_python = (encode(response(*records), head) for encode in encoders)
    assert all(type(one[0]) is bytes for one in (by_native, by_python))
    assert [part for part in by_native if part] == [part for part in by_python if part]
    assert parts_bytes([part for part in by_native if not isinstance(part, SendPart)])
    if head is not None:
        size = sum(part.size if isinstance(part, SendPart) else len(part) for part in by_native)
        assert by_native[0].startswith((size - 4).to_bytes(4) + head)


def test_a_value_that_was_never_set_does_not_fit() -> None:
    message = object.__new__(FetchResponse)
    with pytest.raises(AttributeError, match="throttle_time_ms"):
        both(FetchResponse, 17)[1][0](message, None)


def test_a_struct_of_another_class_does_not_fit() -> None:
    for encode in both(FetchResponse, 11)[1]:
        with pytest.raises(TypeError, match="LeaderIdAndEpoch in place of FetchableTopicResponse"):
            encode(FetchResponse(responses=[LeaderIdAndEpoch()]), None)  # type: ignore[list-item]  # refused


def test_a_long_message_outgrows_the_first_buffer() -> None:
    message = full(MetadataResponse, 12)
    message.topics *= 500
    by_native, by_python = (encode(message, b"1234") for encode in both(MetadataResponse, 12)[1])
    assert len(by_native[0]) > 100_000
    assert by_native == by_python


def test_pure_python_can_be_forced() -> None:
    code = "from pybroker.protocol import codec; print(codec.IS_NATIVE)"
    for pure in ("0", "1"):
        environment = {**os.environ, "PYBROKER_PURE": pure}
        printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
        assert printed.strip() == str(pure == "0")


@for_each_case(sorted({cls for cls, _ in VERSIONED}, key=str))
def test_both_make_what_the_constructor_makes(cls: type[Any]) -> None:
    assert NATIVE is not None
    fields = schema_of(cls).fields
    for chosen in (fields[::2], fields[1::2][::-1], fields, ()):
        names = tuple(one.name for one in chosen)
        defaults = {one.name: [] if one.makes_list else one.default for one in fields if one.name not in names}
        values = [f"value {name}" for name in names]
        expected = cls(**dict(zip(names, values, strict=True)))
        for make in (NATIVE.Maker(cls, names, defaults), _codec_python.Maker(cls, names, defaults)):
            made, other = make(*values), make(*values)
            assert type(made) is cls
            assert made == expected
            lists = [name for name, value in defaults.items() if isinstance(value, list)]
            assert all(getattr(made, name) is not getattr(other, name) for name in lists), "each has its own lists"
            with pytest.raises(TypeError):
                make(*values, 1)


def test_a_maker_keeps_count_of_what_it_is_given() -> None:
    assert NATIVE is not None
    value = object()
    make = NATIVE.Maker(LeaderIdAndEpoch, ("leader_id",), {"leader_epoch": value})
    before = sys.getrefcount(value)
    made = [make(value) for _ in range(1000)]
    assert sys.getrefcount(value) == before + 2000
    del made
    assert sys.getrefcount(value) == before


def test_a_maker_has_all_fields() -> None:
    assert maker(LeaderIdAndEpoch, "leader_id")(3) == LeaderIdAndEpoch(leader_id=3)
    with pytest.raises(AssertionError):
        maker(LeaderIdAndEpoch, "leader")
