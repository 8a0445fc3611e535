"""Describes a message in one version to the native codec, which walks its fields in C.

This is to `_codec_native.Plan` what `decoder_source` and `encoder_source` are to the interpreter, and says the same in a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.protocol.schema import Struct, schema_of
from pybroker.protocol.source import Source

if TYPE_CHECKING:
    from pybroker.protocol._codec_native import Plan
    from pybroker.protocol.schema import Field, Schema

_NUMBER, _TEXT, _BYTES, _RECORDS, _STRUCT, _ARRAY = range(6)
_KINDS: Final = {"number": _NUMBER, "bool": _NUMBER, "uuid": _NUMBER, "str": _TEXT, "bytes": _BYTES, "records": _RECORDS}
_IS_SET, _IS_SET_OR_NULL, _IS_NOT_NULL, _IS_OTHER_BOOL, _IS_OTHER = range(5)


class Step(NamedTuple):
    """One field; the kinds are those of `_codec_native.pyx`.

    Attributes:
        element: the kind of an array's elements.
        code: the struct module's letter for a number, "s" for a UUID; its code point.
        least: bytes that an element of an array takes at least.
        plan: of a struct, or of the structs in an array.
        differs: how a value is compared with the default.
    """

    name: str
    kind: int
    element: int
    code: int
    is_nullable: bool
    least: int
    plan: Plan | None
    differs: int
    default: object
    tag: int


def make_plan(schema: Schema, version: int) -> Plan:
    """The plan of a message."""
    return _Builder(schema, version).plan(schema, is_exact=not schema.is_request)


class _Builder(Source):
    def __init__(self, schema: Schema, version: int) -> None:
        super().__init__(schema, version)
        self._plans: dict[type, Plan] = {}

    def plan(self, schema: Schema, *, is_exact: bool = False) -> Plan:
        """What a class is in this version."""
        from pybroker.protocol._codec_native import Plan  # noqa: PLC0415  (only who has it comes here)

        found = self._plans.get(schema.cls)
        if found is None:
            tagged, absent = self.tagged(schema), self.absent(schema)
            found = self._plans[schema.cls] = Plan(
                schema.cls,
                self.version,
                self.flexible,
                is_exact,
                [self._step(one) for one in self.regular(schema)],
                [self._step(one) for one in absent + tagged],
                [self._step(one) for one in tagged],
                [self._step(one) for one in absent if not one.ignorable],
            )
        return found

    def _step(self, field: Field) -> Step:
        code = 0 if field.wire is None or not field.wire.code else ord(field.wire.code[-1])
        kind = _STRUCT if field.wire is None else _KINDS[field.wire.kind]
        is_there = field.versions.has(self.version)
        return Step(
            field.name,
            _ARRAY if field.is_array else kind,
            kind,
            code,
            field.nullable.has(self.version),
            self.element_size_min(field) if is_there and field.is_array else 0,
            self.plan(schema_of(field.struct)) if is_there and field.struct is not None else None,
            _differs(field),
            field.default,
            max(field.tag, 0),
        )


def _differs(field: Field) -> int:
    """As `EncoderSource` writes it."""
    if field.makes_list:
        return _IS_SET_OR_NULL if field.nullable.lowest <= field.nullable.highest else _IS_SET
    if field.default is None:
        return _IS_NOT_NULL
    if isinstance(field.default, bool):
        return _IS_OTHER_BOOL
    assert isinstance(field.default, int | float | str | bytes | Struct)
    return _IS_OTHER
