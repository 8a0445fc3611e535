"""Formats records as lines: timestamp, partition, offset, headers, key and value, as far as the properties ask for them.

Source: org.apache.kafka.tools.consumer.DefaultMessageFormatter of Kafka 3.9.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from pybroker.config.setting import java_double
from pybroker.tools.errors import CommandError, not_supported

NO_TIMESTAMP, CREATE_TIME = 0, 1
DEFAULT: Final = {"kafka.tools.DefaultMessageFormatter", "org.apache.kafka.tools.consumer.DefaultMessageFormatter"}
NOTHING: Final = {"kafka.tools.NoOpMessageFormatter", "org.apache.kafka.tools.consumer.NoOpMessageFormatter"}


def _number(form: str) -> Callable[[bytes], str]:
    packed = struct.Struct(form)

    def deserialized(data: bytes) -> str:
        if len(data) != packed.size:
            raise CommandError(f"Size of data received by the deserializer is not {packed.size}")
        (value,) = packed.unpack(data)
        return java_double(value) if isinstance(value, float) else str(value)

    return deserialized


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


DESERIALIZERS: Final[dict[str, Callable[[bytes], str]]] = {
    "StringDeserializer": _text,
    "LongDeserializer": _number(">q"),
    "IntegerDeserializer": _number(">i"),
    "ShortDeserializer": _number(">h"),
    "DoubleDeserializer": _number(">d"),
    "UUIDDeserializer": _text,
}
PACKAGE: Final = "org.apache.kafka.common.serialization."


class Formatter:
    """Formats records by the properties of --property. Raises CommandError for an unknown deserializer."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def flag(name: str, *, otherwise: bool = False) -> bool:
            return properties[name].strip().lower() == "true" if name in properties else otherwise

        self._has_timestamp, self._has_partition = flag("print.timestamp"), flag("print.partition")
        self._has_offset, self._has_headers = flag("print.offset"), flag("print.headers")
        self._has_key, self._has_value = flag("print.key"), flag("print.value", otherwise=True)
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_end = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._of_key, self._of_value, self._of_headers = (
            _deserializer(properties.get(f"{name}.deserializer")) for name in ("key", "value", "headers")
        )

    def line(self, message: Any) -> bytes:
        """Return the line of a record of confluent_kafka."""
        parts = []
        if self._has_timestamp:
            kind, at_ms = message.timestamp()
            name = "CreateTime" if kind == CREATE_TIME else "LogAppendTime"
            parts.append(b"NO_TIMESTAMP" if kind == NO_TIMESTAMP else f"{name}:{at_ms}".encode())
        if self._has_partition:
            parts.append(b"Partition:%d" % message.partition())
        if self._has_offset:
            parts.append(b"Offset:%d" % message.offset())
        if self._has_headers:
            parts.append(self._headers(message.headers()))
        if self._has_key:
            parts.append(self._shown(message.key(), self._of_key))
        if self._has_value:
            parts.append(self._shown(message.value(), self._of_value))
        return self._separator.join(parts) + self._line_end if parts else b""

    def _headers(self, headers: list[tuple[str, bytes | None]] | None) -> bytes:
        if not headers:
            return b"NO_HEADERS"
        shown = (name.encode() + b":" + self._shown(value, self._of_headers) for name, value in headers)
        return self._headers_separator.join(shown)

    def _shown(self, data: bytes | None, deserialize: Callable[[bytes], str] | None) -> bytes:
        given = self._null if data is None else data
        return given if deserialize is None else deserialize(given).encode()


class NoFormatter:
    """Prints nothing."""

    def line(self, message: Any) -> bytes:  # noqa: ARG002
        """Return no bytes."""
        return b""


def formatter_of(name: str | None, properties: Mapping[str, str]) -> Formatter | NoFormatter:
    """Return the formatter with a class name. Raises CommandError."""
    if name is None or name in DEFAULT:
        return Formatter(properties)
    if name in NOTHING:
        return NoFormatter()
    raise not_supported(f"--formatter {name}")


def _deserializer(name: str | None) -> Callable[[bytes], str] | None:
    if name is None or name == f"{PACKAGE}ByteArrayDeserializer":
        return None
    found = DESERIALIZERS.get(name.removeprefix(PACKAGE))
    if found is None:
        raise not_supported(f"the deserializer {name}", f"there are {', '.join(DESERIALIZERS)} in {PACKAGE[:-1]}")
    return found
