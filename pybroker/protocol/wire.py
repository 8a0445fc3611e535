"""The wire's types, and the few parts of the encoding that both directions need.

    type                what the attribute holds        on the wire (classic; compact, in flexible versions)
    Bool                bool                            1 byte, zero is false
    Int8 .. Int64       int                             big endian, two's complement
    UInt16              int                             big endian
    Float64             float                           IEEE 754, big endian
    Uuid                bytes, exactly 16               16 bytes
    str                 str                             int16 length, UTF-8; compact: varint of length + 1
    bytes               bytes                           int32 length, bytes; compact: varint of length + 1
    Records             as `Records` describes          as bytes
    list[X]             list                            int32 count, elements; compact: varint of count + 1
    a struct            the class                       its fields in order; flexible: then its tagged fields
    X | None            None for null                   length -1; compact: varint 0
    a struct | None     None for null                   1 byte: -1 for null, 1 before the struct

A varint is at most 5 bytes of 7 bits, lowest first; the top bit means that more follow. Tagged fields are a varint count, then
for each field a varint tag, a varint size and that number of bytes.

Source: KIP-482; Kafka's protocol guide, "Protocol Primitive Types".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple, TypeAlias

from pybroker.protocol.parts import Part, parts_size


class DecodeError(Exception):
    """The bytes are not a message of that kind and version: the peer violates the protocol."""


class TooManyElementsError(DecodeError):
    """A request has more elements than `pybroker.request.elements.max`."""


class EncodeError(Exception):
    """The message cannot be written in that version: a value is out of range, or the version has no field for it."""


class Encoded:
    """A message that is encoded already, in a list of messages: so a handler can encode a long response step by step.

    `error_code` is that of the message.
    """

    __slots__ = ("data", "error_code")

    def __init__(self, data: bytes, error_code: int) -> None:
        self.data = data
        self.error_code = error_code


class Wire(NamedTuple):
    """The encoding of a type that is not a struct or an array.

    Attributes:
        code: its letter for the struct module, or "" if its size varies.
        kind: what a plan must know: "number", "bool", "uuid" or "records".
    """

    code: str
    kind: str


Bool: TypeAlias = Annotated[bool, Wire("?", "bool")]
Int8: TypeAlias = Annotated[int, Wire("b", "number")]
Int16: TypeAlias = Annotated[int, Wire("h", "number")]
UInt16: TypeAlias = Annotated[int, Wire("H", "number")]
Int32: TypeAlias = Annotated[int, Wire("i", "number")]
Int64: TypeAlias = Annotated[int, Wire("q", "number")]
Float64: TypeAlias = Annotated[float, Wire("d", "number")]
Uuid: TypeAlias = Annotated[bytes, Wire("16s", "uuid")]
Records: TypeAlias = Annotated[Part | list[Part] | None, Wire("", "records")]
"""Record batches. Decoded: a memoryview into the frame, borrowed from it, or None. To encode: any part, or a list of parts."""

ZERO_UUID: Final = bytes(16)
VARINT_BYTES_MAX: Final = 5
TEXT_BYTES_MAX: Final = 0x7FFF
"""The longest text that Kafka writes and reads, in compact form too."""
WEIGHTLESS_BYTES: Final = 1024
"""Each this many bytes of a text, or of bytes, count as an element."""
COPIED_AT_ONCE_BYTES: Final = 1 << 20
"""The interpreter is released while more bytes of one field are copied."""
JOIN_BYTES_MAX: Final = 32 << 10
"""Records up to this size are copied into the bytes around them: that costs less than another buffer for the socket."""


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return the unsigned varint at `position`, and the position after it. Raises IndexError at the buffer's end."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift == VARINT_BYTES_MAX * 7:
            raise DecodeError("a varint of more than 5 bytes")
    if value > 0xFFFF_FFFF:
        raise DecodeError("a varint of more than 32 bits")
    return value, position


def skip_tagged(buffer: bytes | memoryview, position: int, count: int) -> int:
    """Return the position after `count` unknown tagged fields."""
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > len(buffer):
            raise too_short(size)
    return position


def too_many() -> TooManyElementsError:
    """Return the error for a message whose elements would take too much memory."""
    return TooManyElementsError("more elements than it may have")


def too_short(wanted: int) -> DecodeError:
    """Return the error for a length or a count that reaches beyond the end."""
    return DecodeError(f"{wanted} bytes or elements do not fit into the bytes that are left")


def bad_length(length: int) -> DecodeError:
    """Return the error for null where it is not allowed, and for other negative lengths."""
    return DecodeError("null for a field that cannot be null" if length == -1 else f"a length of {length}")


def no_place(name: str, version: int) -> EncodeError:
    """Return the error for a value that would be lost: the version has no such field, and it may not be left out."""
    return EncodeError(f"version {version} has no field {name}")


def bad_uuid(name: str) -> EncodeError:
    """Return the error for a UUID that is not 16 bytes."""
    return EncodeError(f"{name} is not 16 bytes")


def put_records(records: Part | Sequence[Part], size: int, pieces: list[Part], large: list[int]) -> None:
    """Append records of `size` bytes to the pieces of a message; note the indexes of those that are sent as they are."""
    kind = type(records)
    if kind is list or kind is tuple:
        for part in records:  # type: ignore[union-attr]
            put_records(part, parts_size(part), pieces, large)  # type: ignore[arg-type]
        return
    if size > JOIN_BYTES_MAX or (kind is not memoryview and kind is not bytes and kind is not bytearray):
        large.append(len(pieces))
    pieces.append(records)  # type: ignore[arg-type]
