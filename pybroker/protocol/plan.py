"""Describes a message in one version as a table of steps, which the codec's twins walk through.

A plan knows which fields the version has, which of them are tagged, what decoding sets to a default, and what a message of this
version cannot carry.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.protocol.schema import Declared, schema_of

if TYPE_CHECKING:
    from pybroker.protocol._codec_python import Plan
    from pybroker.protocol.schema import Field, Schema


class Kind(IntEnum):
    """The kind of a field's bytes on the wire. The native codec has the same numbers, and checks that at its import."""

    NUMBER = 0
    TEXT = 1
    BYTES = 2
    RECORDS = 3
    STRUCT = 4
    ARRAY = 5


class Differs(IntEnum):
    """How a value is compared with its default. The native codec has the same numbers, and checks that at its import."""

    IS_SET = 0  # a list
    IS_SET_OR_NULL = 1  # a list, and null is not the default
    IS_NOT_NULL = 2
    IS_OTHER_BOOL = 3
    IS_OTHER = 4


_KINDS: Final = {
    "number": Kind.NUMBER,
    "bool": Kind.NUMBER,
    "uuid": Kind.NUMBER,
    "str": Kind.TEXT,
    "bytes": Kind.BYTES,
    "records": Kind.RECORDS,
}
_SIZES: Final = {"?": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}


class Step(NamedTuple):
    """One field.

    Attributes:
        element: the kind of an array's elements.
        code: the struct module's letter for a number, "s" for a UUID; its code point.
        least: the least size of an element of an array in bytes.
        plan: the plan of a struct, or of the structs in an array.
        differs: how a value is compared with the default.
    """

    name: str
    kind: Kind
    element: Kind
    code: int
    is_nullable: bool
    least: int
    plan: Plan | None
    differs: Differs
    default: object
    tag: int


def make_plan(schema: Schema, version: int, plan_class: type[Plan]) -> Plan:
    """Return the plan of a message; `plan_class` is that of one of the codec's twins."""
    return _Builder(schema, version, plan_class).plan(schema, is_exact=not schema.is_request)


def make_inner_plan(cls: type, schema: Schema, version: int, plan_class: type[Plan]) -> Plan:
    """Return the plan of the structs of a class in the message that `schema` describes."""
    return _Builder(schema, version, plan_class).plan(schema_of(cls))


class _Builder:
    """Makes the plans of a message and of the structs in it, each once."""

    def __init__(self, schema: Schema, version: int, plan_class: type[Plan]) -> None:
        self._version = version
        self._flexible = schema.flexible.has(version)
        self._plan_class = plan_class
        self._plans: dict[type, Plan] = {}

    def plan(self, schema: Schema, *, is_exact: bool = False) -> Plan:
        """Return the plan of a class in this version.

        Requests need not be exact: librdkafka 2.16 sends three bytes after Metadata, and Kafka's broker ignores them.
        """
        found = self._plans.get(schema.cls)
        if found is None:
            tagged = sorted((one for one in schema.fields if self._has(one) and self._is_tagged(one)), key=lambda one: one.tag)
            absent = [one for one in schema.fields if not self._has(one)]
            found = self._plans[schema.cls] = self._plan_class(
                schema.cls,
                self._version,
                self._flexible,
                is_exact,
                [self._step(one) for one in self._regular(schema)],
                [self._step(one) for one in absent + tagged],
                [self._step(one) for one in tagged],
                [self._step(one) for one in absent if not one.ignorable],
            )
        return found

    def _has(self, field: Field) -> bool:
        return field.versions.has(self._version)

    def _is_tagged(self, field: Field) -> bool:
        return field.tagged.has(self._version)

    def _regular(self, schema: Schema) -> list[Field]:
        """Return the fields that this version has, in order, without the tagged ones."""
        return [one for one in schema.fields if self._has(one) and not self._is_tagged(one)]

    def _step(self, field: Field) -> Step:
        code = 0 if field.wire is None or not field.wire.code else ord(field.wire.code[-1])
        kind = Kind.STRUCT if field.wire is None else _KINDS[field.wire.kind]
        is_there = self._has(field)
        return Step(
            field.name,
            Kind.ARRAY if field.is_array else kind,
            kind,
            code,
            field.nullable.has(self._version),
            self._element_size_min(field) if is_there and field.is_array else 0,
            self.plan(schema_of(field.struct)) if is_there and field.struct is not None else None,
            _differs(field),
            field.default,
            max(field.tag, 0),
        )

    # The least size of a field

    def _element_size_min(self, field: Field) -> int:
        """Return the bytes that an element of an array, or a value that is not null, takes at least."""
        if field.struct is not None:
            return sum(map(self._size_min, self._regular(schema_of(field.struct)))) + self._flexible
        assert field.wire is not None
        return _SIZES[field.wire.code] if field.wire.code else self._length_size_min(is_text=field.wire.kind == "str")

    def _size_min(self, field: Field) -> int:
        if field.is_array:
            return self._length_size_min(is_text=False)
        if field.struct is not None and field.nullable.has(self._version):
            return 1
        return self._element_size_min(field)

    def _length_size_min(self, *, is_text: bool) -> int:
        return 1 if self._flexible else 2 if is_text else 4


def _differs(field: Field) -> Differs:
    if field.makes_list:
        return Differs.IS_SET_OR_NULL if field.nullable.lowest <= field.nullable.highest else Differs.IS_SET
    if field.default is None:
        return Differs.IS_NOT_NULL
    if isinstance(field.default, bool):
        return Differs.IS_OTHER_BOOL
    assert isinstance(field.default, int | float | str | bytes | Declared)
    return Differs.IS_OTHER
