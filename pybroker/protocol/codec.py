"""Encodes and decodes messages: headers and bodies. Only this module turns the errors of plans into DecodeError and EncodeError.

    request     size | key int16 | version int16 | correlation id int32 | client id (v1+) | tagged fields (v2) | body
    response    size | correlation id int32 | tagged fields (v1) | body

Flexible messages have request header v2 and response header v1, all others v1 and v0. Two exceptions: ControlledShutdown v0 has
request header v0, and the response to ApiVersions always has header v0, because a client reads it before it knows what the
broker supports.

Source: Kafka's `RequestHeader.json`, `ResponseHeader.json`, `ApiMessageTypeGenerator`; KIP-482, KIP-511.
"""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pybroker.native import choose
from pybroker.protocol import _codec_python
from pybroker.protocol._codec_python import Maker, Plan, usual_request_header
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.messages import MESSAGES, message_classes
from pybroker.protocol.plan import make_inner_plan, make_plan
from pybroker.protocol.schema import Schema, schema_of
from pybroker.protocol.wire import (
    DecodeError,
    Encoded,
    EncodeError,
    TooManyElementsError,
    bad_length,
    read_uvarint,
    skip_tagged,
    too_short,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.protocol.parts import Part
    from pybroker.protocol.schema import Encoder

__all__ = [
    "IS_NATIVE",
    "DecodeError",
    "EncodeError",
    "Encoded",
    "RequestHeader",
    "TooManyElementsError",
    "decode",
    "decode_request_header",
    "decode_response",
    "encode",
    "encode_request",
    "encode_response",
    "encoded",
    "maker",
    "message_versions",
    "request_class",
    "response_class",
    "usual_request_header",
]

IS_NATIVE: Final = choose(_codec_python, globals())
"""Whether the native twin runs the plans of messages; the contract is in `_codec_python.py`."""

T = TypeVar("T")


_REQUEST_START = struct.Struct(">hhi")  # key, version, correlation id
_REQUEST_HEADER = struct.Struct(">hhih")  # and the client id's length
_RESPONSE_HEAD = struct.Struct(">i")  # correlation id
_RESPONSE_HEAD_TAGGED = struct.Struct(">ix")  # and no tagged fields
DAMAGE: Final = (struct.error, IndexError, UnicodeDecodeError)
"""The errors that the plans raise for bytes that are no message; `decode` makes DecodeError of it."""
UNFIT: Final = (struct.error, TypeError, AttributeError, OverflowError, UnicodeEncodeError)
"""The errors that the plans raise for values that do not fit their fields; `encode` makes EncodeError of it."""

_SPOKEN: Final[dict[tuple[int, int], bool]] = {
    (key, version): spoken.flexible.has(version)
    for key, spoken in MESSAGES.items()
    for version in range(spoken.versions.lowest, spoken.versions.highest + 1)
}
"""Whether the header has tagged fields, by key and version of the requests that can be decoded."""


def _layouts() -> bytes:
    """Return the same for the native code, as `usual_request_header` takes it."""
    layouts = bytearray(64 * (max(MESSAGES) + 1))
    for (key, version), is_tagged in _SPOKEN.items():
        layouts[64 * key + version] = 1 + is_tagged
    return bytes(layouts)


HEADER_LAYOUTS: Final = _layouts()
"""Which headers `usual_request_header` reads."""


class RequestHeader(NamedTuple):
    """The start of every request. `api_key` may be unknown; `client_id` is None also if it cannot be read."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_class(api_key: int) -> type[Any]:
    """Return the class of an API's requests, imported on the first call. Raises KeyError for APIs without messages here."""
    return message_classes(api_key)[0]


def response_class(api_key: int) -> type[Any]:
    """Return the class of an API's responses, imported on the first call. Raises KeyError for APIs without messages here."""
    return message_classes(api_key)[1]


def message_versions(api_key: int) -> tuple[int, int]:
    """Return the lowest and the highest version that the codec supports. Raises KeyError for APIs without messages here."""
    lowest, highest = MESSAGES[api_key].versions
    return lowest, highest


def decode_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """Return the header of a request, and where its body begins. The frame is without its size.

    For an unsupported key or version, only key, version and correlation id are sure, and a response needs no more: the
    client id is then None if it cannot be read, and the body's offset has no meaning.

    Raises DecodeError.
    """
    usual = usual_request_header(frame, HEADER_LAYOUTS, RequestHeader)
    if usual is not None:
        return usual
    try:
        key, version, correlation_id, length = _REQUEST_HEADER.unpack_from(frame)
        tagged = _SPOKEN.get((key, version))
        if tagged is None:
            return _foreign_header(frame)
        end = _REQUEST_HEADER.size
        client_id = None
        if length >= 0:
            end += length
            client_id = frame[_REQUEST_HEADER.size : end].tobytes().decode()
            if end > len(frame):
                raise too_short(length)
        elif length != -1:
            raise bad_length(length)
        if tagged:
            end = _skip_tags(frame, end)
    except DAMAGE as error:
        if len(frame) >= _REQUEST_START.size:
            key, version, _ = _REQUEST_START.unpack_from(frame)
            if (key, version) not in _SPOKEN:
                return _foreign_header(frame)
        raise DecodeError(f"the request header {_damage(error)}") from error
    return RequestHeader(key, version, correlation_id, client_id), end


def _foreign_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """Return what can be read of a header whose layout is not known for sure."""
    key, version, correlation_id = _REQUEST_START.unpack_from(frame)
    client_id, position = None, _REQUEST_START.size
    if (key, version) != (ApiKey.CONTROLLED_SHUTDOWN, 0) and len(frame) >= _REQUEST_HEADER.size:
        length = int.from_bytes(frame[position : position + 2], signed=True)
        text = bytes(frame[position + 2 : position + 2 + max(length, 0)])
        if len(text) == length:
            client_id = text.decode(errors="replace")
            position += 2 + length
    return RequestHeader(key, version, correlation_id, client_id), position


def _skip_tags(frame: memoryview, position: int) -> int:
    """Return the position after the tagged fields of a header; none are known."""
    count = frame[position]
    if count == 0:
        return position + 1
    count, position = read_uvarint(frame, position)
    return skip_tagged(frame, position, count)


def decode(cls: type[T], version: int, buffer: memoryview, offset: int = 0, *, elements_max: int = 0) -> T:
    """Return a message from the bytes that begin at `offset` and end with the buffer.

    Records fields are views into the buffer; everything else is copied out of it.

    Raises DecodeError for everything that is not exactly one message of that version; only a request may have bytes after it.
    Raises TooManyElementsError if `elements_max` is not 0, and the message has more elements of arrays, or kB of texts.
    """
    try:
        decoder = cls.__schema__.decoders[version]  # type: ignore[attr-defined]
    except (KeyError, AttributeError):
        decoder = _decoder(schema_of(cls), version)
    try:
        message: T = decoder(buffer, offset, elements_max)
    except DAMAGE as error:
        raise DecodeError(f"{cls.__name__} v{version} {_damage(error)}") from error
    except DecodeError as error:
        raise type(error)(f"{cls.__name__} v{version}: {error}") from error
    return message


def _damage(error: struct.error | IndexError | UnicodeDecodeError) -> str:
    """Return what is wrong with bytes that a plan could not decode, as the predicate of a sentence.

    A plan only takes numbers out of a buffer, so struct's error and an index out of range both mean an end that comes too early:
    the buffer's, or that of a tagged field.
    """
    return "holds text that is not UTF-8" if isinstance(error, UnicodeDecodeError) else "ends too early"


def encode(message: object, version: int) -> list[Part]:
    """Return the body of a message; large records and late parts are in the list as they are, all else is joined.

    Raises EncodeError.
    """
    return _encoded(message, version, None)


def encode_response(message: object, version: int, correlation_id: int) -> list[Part]:
    """Return a whole response with its size and header. Without large records it is one bytes object.

    Raises EncodeError.
    """
    try:
        encoder, pack_head = message.__schema__.encoders[version]  # type: ignore[attr-defined]
    except (KeyError, AttributeError):
        encoder, pack_head = _encoder_of(message, version)
    try:
        return encoder(message, pack_head(correlation_id))  # type: ignore[no-any-return]  # as the schema has it
    except UNFIT as error:
        raise _misfit(message, version, error) from error


def encode_request(message: object, version: int, *, correlation_id: int, client_id: str | None) -> list[Part]:
    """Return a whole request with its size and header, for clients and tests.

    Raises EncodeError.
    """
    schema = schema_of(type(message))
    assert schema.api_key is not None
    client = b"" if client_id is None else client_id.encode()
    head = _REQUEST_HEADER.pack(schema.api_key, version, correlation_id, -1 if client_id is None else len(client)) + client
    if schema.flexible.has(version):
        head += b"\0"
    return _encoded(message, version, head)


def encoded(element: Any, response: type[Any], version: int) -> Encoded:
    """Return a struct with an error code in the form in which a list of a response may have it.

    Raises EncodeError.
    """
    try:
        parts = _inner_plan(type(element), response, version).encode(element, None)  # type: ignore[arg-type]  # classes are hashable
    except UNFIT as error:
        raise _misfit(element, version, error) from error
    return Encoded(b"".join(parts), element.error_code)  # type: ignore[arg-type]  # no late parts


@functools.cache
def _inner_plan(cls: type[Any], response: type[Any], version: int) -> Plan:
    return make_inner_plan(cls, schema_of(response), version, Plan)


def decode_response(cls: type[T], version: int, frame: memoryview) -> tuple[int, T]:
    """Return the correlation id and the message of a response without its size, for clients and tests.

    Raises DecodeError.
    """
    schema = schema_of(cls)
    if len(frame) < 4:
        raise DecodeError("a response is shorter than its header")
    correlation_id = int.from_bytes(frame[:4], signed=True)
    position = 4
    if schema.flexible.has(version) and schema.api_key is not ApiKey.API_VERSIONS:
        try:
            position = _skip_tags(frame, position)
        except DAMAGE as error:
            raise DecodeError(f"the response header {_damage(error)}") from error
    return correlation_id, decode(cls, version, frame, position)


def maker(cls: type[T], *names: str) -> Callable[..., T]:
    """Make a constructor that takes the values of the fields `names` by position; every other field gets its default.

    It is for the hot paths, which make a few messages per request: natively a call costs a third of the constructor by keyword.
    """
    schema = schema_of(cls)
    others = [one for one in schema.fields if one.name not in names]
    assert len(others) + len(names) == len(schema.fields), f"{cls.__name__} has not all of {names}"
    return Maker(schema.cls, names, {one.name: [] if one.makes_list else one.default for one in others})


def _encoded(message: object, version: int, head: bytes | None) -> list[Part]:
    encoder, _ = _encoder_of(message, version)
    try:
        return encoder(message, head)
    except UNFIT as error:
        raise _misfit(message, version, error) from error


def _misfit(message: object, version: int, error: Exception) -> EncodeError:
    return EncodeError(f"{type(message).__name__} v{version}: {error}")


def _decoder(schema: Schema, version: int) -> Callable[[memoryview, int, int], Any]:
    if not schema.versions.has(version):
        raise DecodeError(f"{schema.cls.__name__} has no version {version}")
    decoder = schema.decoders[version] = make_plan(schema, version, Plan).decode
    return decoder


def _encoder_of(message: object, version: int) -> tuple[Encoder, Callable[[int], bytes]]:
    """Return what encodes a message, and what makes the header of a response."""
    try:
        return message.__schema__.encoders[version]  # type: ignore[attr-defined, no-any-return]
    except (KeyError, AttributeError):
        schema = schema_of(type(message))
    if not schema.versions.has(version):
        raise EncodeError(f"{schema.cls.__name__} has no version {version}")
    is_tagged = schema.flexible.has(version) and schema.api_key is not ApiKey.API_VERSIONS
    head = _RESPONSE_HEAD_TAGGED if is_tagged else _RESPONSE_HEAD
    entry = schema.encoders[version] = make_plan(schema, version, Plan).encode, head.pack
    return entry
