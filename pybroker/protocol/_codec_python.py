"""The codec as generated Python, for where the native one was not built: source text, compiled and kept by its caller."""

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

    from pybroker.protocol.parts import Part
    from pybroker.protocol.schema import Schema
    from pybroker.protocol.source import Source


def generate_decoder(schema: Schema, version: int) -> Callable[[memoryview, int], Any]:
    """`decode(buffer, position) -> message`. Raises DecodeError, struct.error, IndexError and UnicodeDecodeError for damage."""
    return _function("decode", DecoderSource(schema, version))


def generate_encoder(schema: Schema, version: int) -> Callable[[object, bytes | None], list[Part]]:
    """`encode(message, head) -> parts`: the body alone for None, else size, head and body; the first part is bytes.

    Raises EncodeError, and what struct and Python raise for wrong values.
    """
    write = _function("encode", EncoderSource(schema, version))

    def encode(message: object, head: bytes | None) -> list[Part]:
        pieces: list[Part] = [] if head is None else [head]
        large: list[int] = []
        write(message, pieces, large)
        if not large:
            body = b"".join(pieces)  # type: ignore[arg-type]  # only large pieces are late parts
            return [body if head is None else len(body).to_bytes(4) + body]
        parts, size = _join(pieces, large)
        return parts if head is None else [size.to_bytes(4) + parts[0], *parts[1:]]  # type: ignore[operator]  # as above

    return encode


def _join(pieces: list[Part], large: list[int]) -> tuple[list[Part], int]:
    """Join what stands between the large pieces; returns the parts and the bytes of all. The first part is bytes, maybe empty."""
    parts: list[Part] = []
    size = start = 0
    for index in [*large, len(pieces)]:
        joined = b"".join(pieces[start:index])  # type: ignore[arg-type]  # only large pieces are late parts
        if joined or not parts:
            parts.append(joined)
            size += len(joined)
        if index < len(pieces):
            parts.append(pieces[index])
            size += parts_size(pieces[index])
        start = index + 1
    return parts, size


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
