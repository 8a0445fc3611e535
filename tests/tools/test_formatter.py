"""Records as lines."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import pytest

from pybroker.config.setting import java_double
from pybroker.tools.errors import NOT_SUPPORTED, CommandError
from pybroker.tools.formatter import PACKAGE, formatter_of


class Message(NamedTuple):
    """A record as confluent_kafka gives it."""

    the_key: bytes | None = b"k"
    the_value: bytes | None = b"v"
    the_headers: list[tuple[str, bytes | None]] | None = None
    the_timestamp: tuple[int, int] = (1, 7)

    def key(self) -> bytes | None:
        return self.the_key

    def value(self) -> bytes | None:
        return self.the_value

    def headers(self) -> Any:
        return self.the_headers

    def timestamp(self) -> tuple[int, int]:
        return self.the_timestamp

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 5


ALL = {f"print.{name}": "true" for name in ("timestamp", "partition", "offset", "headers", "key", "value")}


def line(message: Message, properties: dict[str, str], name: str | None = None) -> bytes:
    return formatter_of(name, properties).line(message)


def test_a_record_is_its_value() -> None:
    assert line(Message(), {}) == b"v\n"
    assert line(Message(the_value=None), {}) == b"null\n"


def test_all_that_a_record_has() -> None:
    assert line(Message(), ALL) == b"CreateTime:7\tPartition:3\tOffset:5\tNO_HEADERS\tk\tv\n"
    message = Message(None, b"", [("a", b"1"), ("b", None)], (2, 9))
    assert line(message, ALL) == b"LogAppendTime:9\tPartition:3\tOffset:5\ta:1,b:null\tnull\t\n"
    assert line(Message(the_timestamp=(0, -1)), {"print.timestamp": "true"}) == b"NO_TIMESTAMP\tv\n"


def test_separators() -> None:
    properties = {"print.key": "True", "key.separator": " = ", "line.separator": ";", "null.literal": "-"}
    assert line(Message(the_value=None), properties) == b"k = -;"
    assert line(Message(), {"print.value": "false"}) == b""
    assert line(Message(), {"print.value": "false", "print.key": "true"}) == b"k\n"


@pytest.mark.parametrize(
    ("name", "data", "shown"),
    [
        ("StringDeserializer", b"caf\xc3\xa9 \xff", "café \ufffd"),
        ("LongDeserializer", struct.pack(">q", -5), "-5"),
        ("IntegerDeserializer", struct.pack(">i", 70000), "70000"),
        ("ShortDeserializer", struct.pack(">h", 12), "12"),
        ("DoubleDeserializer", struct.pack(">d", 12345678.5), "1.23456785E7"),
        ("ByteArrayDeserializer", b"raw", "raw"),
    ],
)
def test_deserializers(name: str, data: bytes, shown: str) -> None:
    assert line(Message(the_value=data), {"value.deserializer": PACKAGE + name}) == f"{shown}\n".encode()


def test_a_number_has_its_size() -> None:
    with pytest.raises(CommandError, match="Size of data received by the deserializer is not 8"):
        line(Message(), {"value.deserializer": f"{PACKAGE}LongDeserializer"})


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.0"), (1.0, "1.0"), (-2.5, "-2.5"), (0.001, "0.001"), (1e-4, "1.0E-4"), (1.25e-7, "1.25E-7"),
        (9999999.0, "9999999.0"), (1e7, "1.0E7"), (123456789.0, "1.23456789E8"), (1e22, "1.0E22"), (-1.5e300, "-1.5E300"),
        (float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (float("nan"), "NaN"),
    ],
)  # fmt: skip
def test_doubles_as_java_prints_them(value: float, shown: str) -> None:
    assert java_double(value) == shown


def test_what_is_not_there_is_reported_as_missing() -> None:
    with pytest.raises(CommandError, match=r"io.confluent.KafkaAvroDeserializer is not supported") as raised:
        line(Message(), {"value.deserializer": "io.confluent.KafkaAvroDeserializer"})
    assert raised.value.code == NOT_SUPPORTED
    with pytest.raises(CommandError, match=r"--formatter kafka.x.OffsetsMessageFormatter is not supported"):
        line(Message(), {}, "kafka.x.OffsetsMessageFormatter")
    assert line(Message(), {}, "kafka.tools.NoOpMessageFormatter") == b""
