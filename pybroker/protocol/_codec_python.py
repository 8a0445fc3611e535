"""The codec in Python: the contract of both twins, and what runs where the native part was not built.

A plan is one class of messages in one version, as a table of steps that `plan.py` makes. Each step becomes two functions: one
reads the field's value from a buffer and returns the position after it, the other appends the value's bytes to a list. A plan
calls those of its steps in turn, and the functions of a struct are those of the struct's own plan.

Bounds: the struct module and indexing raise by themselves at the end of the buffer. Slices do not, so every length is compared
with the bytes that are left before it is used, and every count with the least size of this many elements.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pybroker.protocol.parts import Part, parts_size
from pybroker.protocol.plan import Differs, Kind
from pybroker.protocol.wire import (
    TEXT_BYTES_MAX,
    WEIGHTLESS_BYTES,
    DecodeError,
    Encoded,
    bad_length,
    bad_uuid,
    no_place,
    put_records,
    read_uvarint,
    too_many,
    too_short,
    uvarint,
)

if TYPE_CHECKING:
    from pybroker.protocol.codec import RequestHeader
    from pybroker.protocol.plan import Step

__all__ = ["Maker", "Plan", "usual_request_header"]

_Reader: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]
_Writer: TypeAlias = Callable[[Any, list[Part], list[int]], None]
"""Appends to the pieces of a message, and notes the indexes of large records and late parts, which are not joined."""
_Length: TypeAlias = Callable[[int], bytes]

_TEXT: Final = Kind.TEXT
_BYTES: Final = Kind.BYTES
_IS_SET: Final = Differs.IS_SET
_IS_SET_OR_NULL: Final = Differs.IS_SET_OR_NULL
_IS_NOT_NULL: Final = Differs.IS_NOT_NULL
_IS_OTHER_BOOL: Final = Differs.IS_OTHER_BOOL
_UUID: Final = ord("s")
_UUID_BYTES: Final = 16
_SHORT_VARINTS: Final = [bytes((value,)) for value in range(128)]


class _Budget(threading.local):
    """The elements that the message under way in this thread may still have; None for any number."""

    left: int | None = None


_budget: Final = _Budget()


def _spend(count: int) -> None:
    left = _budget.left
    if left is not None:
        if count > left:
            raise too_many()
        _budget.left = left - count


class Plan:
    """One class in one version: its fields, those that decoding sets to defaults, the tagged, and those that must not be lost."""

    def __init__(  # noqa: PLR0917  (the native twin's are positional)
        self,
        cls: type,
        version: int,
        is_flexible: bool,
        is_exact: bool,
        regular: Sequence[Step],
        preset: Sequence[Step],
        tagged: Sequence[Step],
        absent: Sequence[Step],
    ) -> None:
        self._cls, self._version, self._is_flexible, self._is_exact = cls, version, is_flexible, is_exact
        self._lists = [step.name for step in preset if step.differs <= Differs.IS_SET_OR_NULL]
        self._defaults = [(step.name, step.default) for step in preset if step.differs > Differs.IS_SET_OR_NULL]
        self._readers = [(step.name, _reader(step, is_flexible)) for step in regular]
        self._writers = [(step.name, _writer(step, is_flexible)) for step in regular]
        self._tag_readers = {step.tag: (step.name, _tag_reader(step, is_flexible)) for step in tagged}
        self._tag_writers = [(step, _tag_writer(step, is_flexible)) for step in tagged]
        self._absent = absent

    def decode(self, buffer: memoryview, offset: int, elements_max: int = 0) -> object:
        """Return a message from the bytes from `offset` on.

        With `elements_max`, it raises TooManyElementsError when it meets more elements of arrays, before it makes a list of
        them; each kB of a text counts as one.

        Raises DecodeError, struct.error, IndexError and UnicodeDecodeError for damage.
        """
        _budget.left = elements_max or None
        message, position = self.read(buffer, offset)
        if self._is_exact and position != len(buffer):
            raise DecodeError(f"{len(buffer) - position} bytes too many")
        return message

    def encode(self, message: object, head: bytes | None) -> list[Part]:
        """Return the parts of the body alone, or, with a `head`, of size, head and body; the first is bytes.

        Raises EncodeError; for misfits also struct.error, AttributeError, OverflowError, TypeError, UnicodeEncodeError.
        """
        pieces: list[Part] = [] if head is None else [head]
        large: list[int] = []
        self.write(message, pieces, large)
        parts, size = _join(pieces, large)
        if head is not None:
            parts[0] = size.to_bytes(4) + parts[0]  # type: ignore[operator]  # the first is bytes
        return parts

    def read(self, buffer: memoryview, position: int) -> tuple[object, int]:
        """Return a message and the position after it."""
        message: object = object.__new__(self._cls)
        for name, default in self._defaults:
            setattr(message, name, default)
        for name in self._lists:
            setattr(message, name, [])
        for name, read in self._readers:
            value, position = read(buffer, position)
            setattr(message, name, value)
        if self._is_flexible:
            position = self._read_tagged(message, buffer, position) if buffer[position] else position + 1
        return message, position

    def _read_tagged(self, message: object, buffer: memoryview, position: int) -> int:
        count, position = read_uvarint(buffer, position)
        for _ in range(count):
            _spend(1)
            tag, position = read_uvarint(buffer, position)
            size, position = read_uvarint(buffer, position)
            end = position + size
            if end > len(buffer):
                raise too_short(size)
            if tag in self._tag_readers:
                name, read = self._tag_readers[tag]
                value, position = read(buffer[:end], position)
                if position != end:
                    raise DecodeError(f"{end - position} bytes too many")
                setattr(message, name, value)
            position = end
        return position

    def write(self, message: object, pieces: list[Part], large: list[int]) -> None:
        """Append the bytes of a message."""
        if not isinstance(message, self._cls):
            if type(message) is Encoded:
                pieces.append(message.data)
                return
            raise TypeError(f"{type(message).__name__} in place of {self._cls.__name__}")
        for step in self._absent:
            if _differs(step, getattr(message, step.name)):
                raise no_place(step.name, self._version)
        for name, write in self._writers:
            write(getattr(message, name), pieces, large)
        if self._is_flexible:
            self._write_tagged(message, pieces)

    def _write_tagged(self, message: object, pieces: list[Part]) -> None:
        values = [(step, write, getattr(message, step.name)) for step, write in self._tag_writers]
        present = [(step, write, value) for step, write, value in values if _differs(step, value)]
        pieces.append(uvarint(len(present)) if present else b"\0")
        for step, write, value in present:
            inner: list[Part] = []
            large: list[int] = []
            write(value, inner, large)
            if large:
                raise TypeError("large records in a tagged field")
            data = b"".join(inner)  # type: ignore[arg-type]  # only large pieces are late parts
            pieces += uvarint(step.tag), uvarint(len(data)), data


class Maker:
    """A constructor by position of one class: it takes the values of some fields and gives every other field its default."""

    __slots__ = ("_cls", "_defaults", "_given")

    def __init__(self, cls: type, given: tuple[str, ...], defaults: dict[str, object]) -> None:
        """Take the names of the fields that are given, and the values of all others; a list stands for a new one each time."""
        self._cls = cls
        self._given = given
        self._defaults = tuple(defaults.items())

    def __call__(self, *values: object) -> Any:
        """Make a message. Raises TypeError for another number of values."""
        if len(values) != len(self._given):
            raise TypeError(f"{self._cls.__name__} is made of {', '.join(self._given)}, not of {len(values)} values")
        made: Any = object.__new__(self._cls)
        for name, value in zip(self._given, values, strict=True):
            setattr(made, name, value)
        for name, value in self._defaults:
            setattr(made, name, [] if type(value) is list else value)
        return made


def usual_request_header(
    frame: memoryview,  # noqa: ARG001
    layouts: bytes,  # noqa: ARG001
    header_class: type[RequestHeader],  # noqa: ARG001
) -> tuple[RequestHeader, int] | None:
    """Return the header of a request and where its body begins; None if `decode_request_header` must parse it.

    `layouts` has a byte for each key and each of 64 versions: 0 not supported, 1 header version 1, 2 header version 2.
    Always None in Python, where `decode_request_header` costs no more.
    """
    return None


def _join(pieces: list[Part], large: list[int]) -> tuple[list[Part], int]:
    """Join the pieces between the large ones. Returns the parts and their total size; the first part is bytes, maybe empty."""
    parts: list[Part] = []
    size = start = 0
    for index in [*large, len(pieces)]:
        joined = b"".join(pieces[start:index])  # type: ignore[arg-type]  # only large pieces are late
        if joined or not parts:
            parts.append(joined)
            size += len(joined)
        if index < len(pieces):
            parts.append(pieces[index])
            size += parts_size(pieces[index])
        start = index + 1
    return parts, size


def _differs(step: Step, value: object) -> bool:
    """Return whether a value is not at its default."""
    if step.differs is _IS_SET:
        return bool(value)
    if step.differs is _IS_SET_OR_NULL:
        return value is None or bool(value)
    if step.differs is _IS_NOT_NULL:
        return value is not None
    if step.differs is _IS_OTHER_BOOL:
        return bool(value) != step.default
    return value is not step.default and value != step.default


# Reading


def _reader(step: Step, is_flexible: bool) -> _Reader:
    if step.kind != Kind.ARRAY:
        return _value_reader(step, step.kind, step.is_nullable, is_flexible)
    length = _length_reader(step.is_nullable, is_flexible, ">i")
    element = _value_reader(step, step.element, is_nullable=False, is_flexible=is_flexible)
    letter = None if step.element != Kind.NUMBER or step.code == _UUID else chr(step.code)
    least = step.least

    def read(buffer: memoryview, position: int) -> tuple[list[Any] | None, int]:
        count, position = length(buffer, position)
        if count < 0:
            return None, position
        if count * least > len(buffer) - position:
            raise too_short(count)
        _spend(count)
        if letter is not None:
            return list(struct.unpack_from(f">{count}{letter}", buffer, position)), position + count * least
        values = []
        for _ in range(count):
            value, position = element(buffer, position)
            values.append(value)
        return values, position

    return read


def _value_reader(step: Step, kind: Kind, is_nullable: bool, is_flexible: bool) -> _Reader:
    if kind == Kind.NUMBER:
        return _number_reader(step.code)
    if kind == Kind.STRUCT:
        assert step.plan is not None
        return _nullable_reader(step.plan.read) if is_nullable else step.plan.read
    length = _length_reader(is_nullable, is_flexible, ">h" if kind == Kind.TEXT else ">i")

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        size, position = length(buffer, position)
        if size < 0:
            return None, position
        end = position + size
        if end > len(buffer):
            raise too_short(size)
        if size > WEIGHTLESS_BYTES and kind != Kind.RECORDS:
            _spend(size // WEIGHTLESS_BYTES)
            if kind is _TEXT and size > TEXT_BYTES_MAX:
                raise bad_length(size)
        data = buffer[position:end]
        return (str(data, "utf-8") if kind is _TEXT else bytes(data) if kind is _BYTES else data), end

    return read


def _number_reader(code: int) -> _Reader:
    packed = struct.Struct(_letters(code))
    unpack, size = packed.unpack_from, packed.size
    return lambda buffer, position: (unpack(buffer, position)[0], position + size)


def _nullable_reader(read_struct: _Reader) -> _Reader:
    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        marker = buffer[position]
        if marker == 0xFF:
            return None, position + 1
        if marker != 1:
            raise bad_length(marker - 0x100 if marker > 0x7F else marker)
        return read_struct(buffer, position + 1)

    return read


def _tag_reader(step: Step, is_flexible: bool) -> _Reader:
    """Return the reader of a tagged field. Kafka writes a null struct as 0 there, and as -1 elsewhere."""
    read = _reader(step, is_flexible)
    if step.kind != Kind.STRUCT or not step.is_nullable:
        return read
    return lambda buffer, position: (None, position + 1) if buffer[position] == 0 else read(buffer, position)


def _length_reader(is_nullable: bool, is_flexible: bool, letters: str) -> _Reader:
    """Return the function that reads a length or count; -1 is null."""
    packed = struct.Struct(letters)
    unpack, size = packed.unpack_from, packed.size

    def read(buffer: memoryview, position: int) -> tuple[int, int]:
        length: int = unpack(buffer, position)[0]
        if length < 0 and (length != -1 or not is_nullable):
            raise bad_length(length)
        return length, position + size

    def read_compact(buffer: memoryview, position: int) -> tuple[int, int]:
        length, end = buffer[position], position + 1
        if length > 0x7F:
            length, end = read_uvarint(buffer, position)
        if not length and not is_nullable:
            raise bad_length(-1)
        return length - 1, end

    return read_compact if is_flexible else read


# Writing


def _writer(step: Step, is_flexible: bool) -> _Writer:
    if step.kind != Kind.ARRAY:
        return _value_writer(step, step.kind, step.is_nullable, is_flexible)
    length = _compact_length if is_flexible else struct.Struct(">i").pack
    element = _value_writer(step, step.element, is_nullable=False, is_flexible=is_flexible)

    def write(values: Sequence[Any], pieces: list[Part], large: list[int]) -> None:
        pieces.append(length(len(values)))
        for value in values:
            element(value, pieces, large)

    return _nullable_writer(write, step, length)


def _tag_writer(step: Step, is_flexible: bool) -> _Writer:
    write = _writer(step, is_flexible)
    if step.kind != Kind.STRUCT or not step.is_nullable:
        return write

    def write_tagged(value: Any, pieces: list[Part], large: list[int]) -> None:
        if value is None:
            pieces.append(b"\0")
        else:
            write(value, pieces, large)

    return write_tagged


def _value_writer(step: Step, kind: Kind, is_nullable: bool, is_flexible: bool) -> _Writer:
    if kind == Kind.NUMBER:
        return _number_writer(step)
    if kind == Kind.STRUCT:
        assert step.plan is not None
        return _nullable_struct_writer(step.plan.write) if is_nullable else step.plan.write
    length = _compact_length if is_flexible else struct.Struct(">h" if kind == Kind.TEXT else ">i").pack

    def write(value: Any, pieces: list[Part], _large: list[int]) -> None:
        data = value.encode() if kind is _TEXT else value
        if kind is _TEXT and len(data) > TEXT_BYTES_MAX:
            raise OverflowError(f"a length of {len(data)}")
        pieces.append(length(len(data)))
        pieces.append(data)

    def write_records(value: Part | Sequence[Part], pieces: list[Part], large: list[int]) -> None:
        size = parts_size(value)
        pieces.append(length(size))
        if size > 0:
            put_records(value, size, pieces, large)

    return _nullable_writer(write_records if kind == Kind.RECORDS else write, step._replace(is_nullable=is_nullable), length)


def _nullable_writer(write_value: _Writer, step: Step, length: _Length) -> _Writer:
    def write(value: Any, pieces: list[Part], large: list[int]) -> None:
        if value is not None:
            write_value(value, pieces, large)
        elif step.is_nullable:
            pieces.append(length(-1))
        else:
            raise TypeError(f"null for {step.name}")

    return write


def _nullable_struct_writer(write_struct: _Writer) -> _Writer:
    def write(value: Any, pieces: list[Part], large: list[int]) -> None:
        pieces.append(b"\xff" if value is None else b"\1")
        if value is not None:
            write_struct(value, pieces, large)

    return write


def _number_writer(step: Step) -> _Writer:
    pack = struct.Struct(_letters(step.code)).pack

    def write(value: Any, pieces: list[Part], _large: list[int]) -> None:
        pieces.append(pack(value))

    def write_uuid(value: bytes, pieces: list[Part], _large: list[int]) -> None:
        if len(value) != _UUID_BYTES:  # the struct module would cut or fill it silently
            raise bad_uuid(step.name)
        pieces.append(pack(value))

    return write_uuid if step.code == _UUID else write


def _compact_length(length: int) -> bytes:
    return _SHORT_VARINTS[length + 1] if length < 0x7F else uvarint(length + 1)


def _letters(code: int) -> str:
    """Return the struct module's letters for a number."""
    return ">16s" if code == _UUID else f">{chr(code)}"
