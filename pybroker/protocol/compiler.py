"""Turns generated source into functions, once per message class and version, on first use."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, Any

from pybroker.protocol.decoder_source import DecoderSource
from pybroker.protocol.encoder_source import EncoderSource
from pybroker.protocol.parts import parts_size
from pybroker.protocol.wire import (
    DecodeError,
    bad_length,
    bad_uuid,
    no_place,
    put_records,
    read_uvarint,
    skip_tagged,
    too_short,
    uvarint,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.protocol.schema import Schema
    from pybroker.protocol.source import Source


def compile_decoder(schema: Schema, version: int) -> Callable[[memoryview, int], Any]:
    """`decode(buffer, position) -> message`. Raises DecodeError, struct.error, IndexError and UnicodeDecodeError for damage."""
    return _function("decode", DecoderSource(schema, version))


def compile_encoder(schema: Schema, version: int) -> Callable[..., None]:
    """`encode(message, pieces, large)`. Raises EncodeError, and what struct and Python raise for wrong values."""
    return _function("encode", EncoderSource(schema, version))


def _spare(size: int) -> DecodeError:
    return DecodeError(f"{size} bytes too many")


RUNTIME: dict[str, Any] = {
    "bad_length": bad_length,
    "bad_uuid": bad_uuid,
    "new": object.__new__,
    "no_place": no_place,
    "parts_size": parts_size,
    "put_records": put_records,
    "read_uvarint": read_uvarint,
    "skip_tagged": skip_tagged,
    "spare": _spare,
    "too_short": too_short,
    "uvarint": uvarint,
}
"""What the generated code calls."""


def _function(name: str, source: Source) -> Callable[..., Any]:
    text = source.text()
    filename = f"<{source.schema.cls.__qualname__} v{source.version} {name}>"
    linecache.cache[filename] = len(text), None, text.splitlines(keepends=True), filename  # for tracebacks
    namespace = RUNTIME | source.constants
    exec(compile(text, filename, "exec"), namespace)  # noqa: S102  (made of declarations only)
    function: Callable[..., Any] = namespace[name]
    return function
