"""Messages to bytes and back: headers, bodies, and the one place where errors of the generated code become ours.

    request     size | key int16 | version int16 | correlation id int32 | client id (v1+) | tagged fields (v2) | body
    response    size | correlation id int32 | tagged fields (v1) | body

Flexible messages have request header v2 and response header v1, all others v1 and v0. Two exceptions: ControlledShutdown v0 has
request header v0, and the response to ApiVersions has header v0 always, since a client reads it before it knows what the
broker speaks.

Source: Kafka's `RequestHeader.json`, `ResponseHeader.json`, `ApiMessageTypeGenerator`; KIP-482, KIP-511.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.compiler import compile_decoder, compile_encoder
from pybroker.protocol.messages import MESSAGES
from pybroker.protocol.parts import Part, parts_size
from pybroker.protocol.schema import Schema, schema_of
from pybroker.protocol.wire import DecodeError, EncodeError, read_uvarint, skip_tagged

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "DecodeError",
    "EncodeError",
    "RequestHeader",
    "decode",
    "decode_request_header",
    "decode_response",
    "encode",
    "encode_request",
    "encode_response",
    "message_versions",
    "request_class",
    "response_class",
]

T = TypeVar("T")

_REQUEST_HEADER = struct.Struct(">hhi")  # key, version, correlation id
_CLIENT_ID_LENGTH = struct.Struct(">h")
_RESPONSE_HEADER = struct.Struct(">ii")  # size, correlation id
_RESPONSE_HEADER_TAGGED = struct.Struct(">iix")  # and no tagged fields
_DAMAGE = (struct.error, IndexError, UnicodeDecodeError)
_UNFIT = (struct.error, TypeError, AttributeError, UnicodeEncodeError)

_REQUESTS: dict[int, type] = {}
_RESPONSES: dict[int, type] = {}
for _request, _response in MESSAGES:
    _key = schema_of(_request).api_key
    assert _key is not None
    assert _key is schema_of(_response).api_key
    _REQUESTS[_key] = _request
    _RESPONSES[_key] = _response


class RequestHeader(NamedTuple):
    """What every request begins with. `api_key` may be one that nobody knows; `client_id` is None also when it cannot be read."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_class(api_key: int) -> type[Any]:
    """The class of an API's requests. Raises KeyError for APIs without messages here."""
    return _REQUESTS[api_key]


def response_class(api_key: int) -> type[Any]:
    """The class of an API's responses. Raises KeyError for APIs without messages here."""
    return _RESPONSES[api_key]


def message_versions(api_key: int) -> tuple[int, int]:
    """The lowest and the highest version that the codec speaks. Raises KeyError for APIs without messages here."""
    versions = schema_of(_REQUESTS[api_key]).versions
    return versions.lowest, versions.highest


def decode_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """The header of a request, and where its body begins. The frame is without its size.

    Of a key or version that is not spoken here, key, version and correlation id are enough, since an answer needs no more: the
    client id is None then when it cannot be read, and the body's offset means nothing.

    Raises DecodeError.
    """
    try:
        key, version, correlation_id = _REQUEST_HEADER.unpack_from(frame)
    except struct.error as error:
        raise DecodeError("a request that is shorter than its header") from error
    cls = _REQUESTS.get(key)
    schema = None if cls is None else schema_of(cls)
    if schema is not None and schema.versions.has(version):
        try:
            client_id, position = _read_client_id(frame)
            if schema.flexible.has(version):
                position = _skip_header_tags(frame, position)
        except _DAMAGE as error:
            raise DecodeError(f"a damaged header: {error}") from error
        return RequestHeader(key, version, correlation_id, client_id), position
    if key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return RequestHeader(key, version, correlation_id, None), _REQUEST_HEADER.size
    try:
        client_id, position = _read_client_id(frame)
    except (*_DAMAGE, DecodeError):
        client_id, position = None, _REQUEST_HEADER.size
    return RequestHeader(key, version, correlation_id, client_id), position


def _read_client_id(frame: memoryview) -> tuple[str | None, int]:
    (length,) = _CLIENT_ID_LENGTH.unpack_from(frame, 8)
    if length < 0:
        if length != -1:
            raise DecodeError(f"a client id of length {length}")
        return None, 10
    end = 10 + length
    if end > len(frame):
        raise DecodeError("a client id that reaches beyond the request")
    return str(frame[10:end], "utf-8"), end


def _skip_header_tags(frame: memoryview, position: int) -> int:
    count = frame[position]
    if count == 0:
        return position + 1
    count, position = read_uvarint(frame, position)
    return skip_tagged(frame, position, count)


def decode(cls: type[T], version: int, buffer: memoryview, offset: int = 0) -> T:
    """A message from the bytes that begin at `offset` and end with the buffer.

    Records fields are views into the buffer; everything else is copied out of it.

    Raises DecodeError for everything that is not exactly one message of that version.
    """
    schema = schema_of(cls)
    try:
        decoder = schema.decoders[version]
    except KeyError:
        decoder = _decoder(schema, version)
    try:
        message: T = decoder(buffer, offset)
    except _DAMAGE as error:
        raise DecodeError(f"{cls.__name__} v{version}: {error}") from error
    return message


def encode(message: object, version: int) -> list[Part]:
    """The body of a message; large records and late parts stand in the list as they are, all else is joined.

    Raises EncodeError.
    """
    pieces, large = _encode_pieces(message, version)
    return _join(pieces, large)


def encode_response(message: object, version: int, correlation_id: int) -> list[Part]:
    """A whole response with its size and header. Without large records it is one bytes object.

    Raises EncodeError.
    """
    pieces, large = _encode_pieces(message, version)
    schema = schema_of(type(message))
    tagged = schema.flexible.has(version) and schema.api_key is not ApiKey.API_VERSIONS
    header, size = (_RESPONSE_HEADER_TAGGED, 5) if tagged else (_RESPONSE_HEADER, 4)
    if not large:
        body = b"".join(pieces)  # type: ignore[arg-type]  # only large pieces are late parts
        return [header.pack(size + len(body), correlation_id) + body]
    return _join([header.pack(size + parts_size(pieces), correlation_id), *pieces], [index + 1 for index in large])


def encode_request(message: object, version: int, correlation_id: int, client_id: str | None) -> list[Part]:
    """A whole request with its size and header, for clients and tests.

    Raises EncodeError.
    """
    schema = schema_of(type(message))
    assert schema.api_key is not None
    body, large = _encode_pieces(message, version)
    client = None if client_id is None else client_id.encode()
    header = _REQUEST_HEADER.pack(schema.api_key, version, correlation_id)
    header += _CLIENT_ID_LENGTH.pack(-1 if client is None else len(client)) + (client or b"")
    if schema.flexible.has(version):
        header += b"\0"
    header = (len(header) + parts_size(body)).to_bytes(4) + header
    return _join([header, *body], [index + 1 for index in large])


def decode_response(cls: type[T], version: int, frame: memoryview) -> tuple[int, T]:
    """The correlation id and the message of a response without its size, for clients and tests.

    Raises DecodeError.
    """
    schema = schema_of(cls)
    if len(frame) < 4:
        raise DecodeError("a response that is shorter than its header")
    correlation_id = int.from_bytes(frame[:4], signed=True)
    position = 4
    if schema.flexible.has(version) and schema.api_key is not ApiKey.API_VERSIONS:
        try:
            position = _skip_header_tags(frame, position)
        except _DAMAGE as error:
            raise DecodeError(f"a damaged header: {error}") from error
    return correlation_id, decode(cls, version, frame, position)


def _encode_pieces(message: object, version: int) -> tuple[list[Part], list[int]]:
    schema = schema_of(type(message))
    try:
        encoder = schema.encoders[version]
    except KeyError:
        encoder = _encoder(schema, version)
    pieces: list[Part] = []
    large: list[int] = []
    try:
        encoder(message, pieces, large)
    except _UNFIT as error:
        raise EncodeError(f"{type(message).__name__} v{version}: {error}") from error
    return pieces, large


def _join(pieces: list[Part], large: list[int]) -> list[Part]:
    """Join what stands between the large pieces."""
    parts: list[Part] = []
    start = 0
    for index in large:
        if index > start:
            parts.append(b"".join(pieces[start:index]))  # type: ignore[arg-type]  # only large pieces are late parts
        parts.append(pieces[index])
        start = index + 1
    if start < len(pieces):
        parts.append(b"".join(pieces[start:]))  # type: ignore[arg-type]
    return parts


def _decoder(schema: Schema, version: int) -> Callable[[memoryview, int], Any]:
    if not schema.versions.has(version):
        raise DecodeError(f"{schema.cls.__name__} has no version {version}")
    decoder = schema.decoders[version] = compile_decoder(schema, version)
    return decoder


def _encoder(schema: Schema, version: int) -> Callable[..., None]:
    if not schema.versions.has(version):
        raise EncodeError(f"{schema.cls.__name__} has no version {version}")
    encoder = schema.encoders[version] = compile_encoder(schema, version)
    return encoder
