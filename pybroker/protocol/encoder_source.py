"""Generates encoders: one flat function per message class and version.

`encode(m1, pieces, large)` appends bytes to `pieces`; `large` gets the indexes of the records that stand there as they are.
What it writes for MetadataResponse v12, partitions of a topic, begins:

    for m30 in a29:
        a31 = m30.replica_nodes
        n32 = len(a31)
        if n32 < 8:
            w(T33[n32](m30.error_code, m30.partition_index, m30.leader_id, m30.leader_epoch, n32 + 1, *a31))
        else:
            ...

Values that do not fit fail inside `struct` or for want of an attribute; the codec turns that into EncodeError in one place.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from pybroker.protocol.schema import NO_VERSIONS, Struct, schema_of
from pybroker.protocol.source import Source
from pybroker.protocol.wire import Numbers, uvarint

if TYPE_CHECKING:
    from pybroker.protocol.schema import Field, Schema

SHORT_ARRAY = 8
"""Arrays of fewer numbers are packed in one call with the fields before them."""


class EncoderSource(Source):
    """The encoder of one message class in one version."""

    def __init__(self, schema: Schema, version: int) -> None:
        super().__init__(schema, version)
        self._codes: list[str] = []
        self._values: list[str] = []
        message = self.name("m")
        aside = self.begin_function(f"def encode({message}, pieces, large):")
        self.line("w = pieces.append")
        self._struct(schema, message)
        self._flush()
        self.end_function(aside)

    # Runs

    def _fixed(self, code: str, value: str) -> None:
        self._codes.append(code)
        if code != "x":
            self._values.append(value)

    def _take_run(self) -> tuple[str, str]:
        run = "".join(self._codes), ", ".join(self._values)
        self._codes, self._values = [], []
        return run

    def _flush(self) -> None:
        if self._codes:
            self.line(f"w({self._packed(*self._take_run())})")

    def _packed(self, codes: str, values: str) -> str:
        """An expression for the bytes of a run."""
        if not values:
            return repr(bytes(len(codes)))
        return f"{self.constant('P', struct.Struct('>' + codes).pack)}({values})"

    def _flush_with_length(self, field: Field, length: str) -> None:
        """End the run with a length or count; `length` is -1 for null."""
        code = self.length_code(field)
        if not self.flexible:
            self._fixed(code, length)
            self._flush()
            return
        codes, values = self._take_run()
        both = f"{values}, {length} + 1" if values else f"{length} + 1"
        before = f"{self._packed(codes, values)} + " if codes else ""
        self.line(f"if {length} < 127:")
        self.line(f"    w({self._packed(codes + code, both)})")
        self.line("else:")
        self.line(f"    w({before}uvarint({length} + 1))")

    # Structs

    def _struct(self, schema: Schema, value: str) -> None:
        for one in self.absent(schema):
            if not one.ignorable:
                self.line(f"if {self._differs(one, f'{value}.{one.name}')}:")
                self.line(f"    raise no_place({one.name!r}, {self.version})")
        for one in self.regular(schema):
            self._field(one, f"{value}.{one.name}")
        if self.flexible:
            self._tagged_fields(schema, value)

    def _differs(self, field: Field, value: str) -> str:
        """An expression: whether a field is not at its default."""
        if field.makes_list:
            return f"{value} or {value} is None" if field.nullable.lowest <= field.nullable.highest else value
        if field.default is None:
            return f"{value} is not None"
        if isinstance(field.default, bool):
            return f"not {value}" if field.default else value
        if isinstance(field.default, int | str | bytes):
            return f"{value} != {field.default!r}"
        default = self.constant("K", field.default)
        if isinstance(field.default, Struct):  # mostly the shared default itself
            return f"({value} is not {default} and {value} != {default})"
        return f"{value} != {default}"

    def _tagged_fields(self, schema: Schema, value: str) -> None:
        tagged = self.tagged(schema)
        if not tagged:
            self._fixed("x", "")
            return
        self._flush()
        writer = self._tag_writer(tagged)
        self.line(f"if {' or '.join(self._differs(one, f'{value}.{one.name}') for one in tagged)}:")
        self.line(f"    {writer}({value}, w)")
        self.line("else:")
        self.line(r"    w(b'\0')")

    def _tag_writer(self, tagged: list[Field]) -> str:
        """A function for the rare case that a tagged field is not at its default."""
        value_writers = [(one, self._tag_value_writer(one)) for one in tagged]
        writer = self.name("write_tags")
        aside = self.begin_function(f"def {writer}(m, w):")
        self.line("fields = []")
        for one, value_writer in value_writers:
            self.line(f"if {self._differs(one, f'm.{one.name}')}:")
            self.line(f"    value = {value_writer}(m.{one.name})")
            self.line(f"    fields += {uvarint(one.tag)!r}, uvarint(len(value)), value")
        self.line("w(uvarint(len(fields) // 3))")
        self.line("w(b''.join(fields))")
        self.end_function(aside)
        return writer

    def _tag_value_writer(self, field: Field) -> str:
        writer = self.name("write_tag")
        aside = self.begin_function(f"def {writer}(value):")
        self.line("pieces = []")
        self.line("w = pieces.append")
        self._field(field, "value")
        self._flush()
        self.line("return b''.join(pieces)")
        self.end_function(aside)
        return writer

    # Fields

    def _field(self, field: Field, value: str) -> None:
        nullable = field.nullable.has(self.version)
        if field.is_array:
            self._array(field, value, nullable=nullable)
        elif field.wire is None:
            self._struct_field(field, value, nullable=nullable)
        elif field.wire.kind == "uuid":
            self._uuid(field, value)
        elif field.wire.code:
            self._fixed(field.wire.code, value)
        elif field.wire.kind == "str":
            self._string(field, value, nullable=nullable)
        elif field.wire.kind == "bytes":
            self._bytes(field, value, nullable=nullable)
        else:
            self._records(field, value, nullable=nullable)

    def _uuid(self, field: Field, value: str) -> None:
        """The struct module would cut or fill a value of another size without a word."""
        name = self.name("u")
        self.line(f"{name} = {value}")
        self.line(f"if len({name}) != 16:")
        self.line(f"    raise bad_uuid({field.name!r})")
        self._fixed("16s", name)

    def _struct_field(self, field: Field, value: str, *, nullable: bool) -> None:
        assert field.struct is not None
        name = self.name("m")
        self.line(f"{name} = {value}")
        if not nullable:
            self._struct(schema_of(field.struct), name)
            return
        self._flush()
        self.line(f"if {name} is None:")
        self.line(r"    w(b'\xff')")
        self.line("else:")
        self.indent()
        self._fixed("b", "1")
        self._struct(schema_of(field.struct), name)
        self._flush()
        self.dedent()

    def _string(self, field: Field, value: str, *, nullable: bool) -> None:
        text, length = self.name("s"), self.name("n")
        if nullable:
            self.line(f"{text} = {value}")
            self.line(f"if {text} is None:")
            self.line(f"    {text}, {length} = b'', -1")
            self.line("else:")
            self.line(f"    {text} = {text}.encode()")
            self.line(f"    {length} = len({text})")
        else:
            self.line(f"{text} = {value}.encode()")
            self.line(f"{length} = len({text})")
        self._flush_with_length(field, length)
        self.line(f"w({text})")

    def _bytes(self, field: Field, value: str, *, nullable: bool) -> None:
        data, length = self.name("b"), self.name("n")
        self._measure(value, data, length, "b''", nullable=nullable)
        self._flush_with_length(field, length)
        self.line(f"w({data})")

    def _records(self, field: Field, value: str, *, nullable: bool) -> None:
        records, length = self.name("r"), self.name("n")
        self.line(f"{records} = {value}")
        size = f"parts_size({records})"
        self.line(f"{length} = -1 if {records} is None else {size}" if nullable else f"{length} = {size}")
        self._flush_with_length(field, length)
        self.line(f"if {length} > 0:")
        self.line(f"    put_records({records}, {length}, pieces, large)")

    def _measure(self, value: str, name: str, length: str, empty: str, *, nullable: bool) -> None:
        """Name a value and its length, which is -1 for null."""
        self.line(f"{name} = {value}")
        if nullable:
            self.line(f"if {name} is None:")
            self.line(f"    {name}, {length} = {empty}, -1")
            self.line("else:")
            self.line(f"    {length} = len({name})")
        else:
            self.line(f"{length} = len({name})")

    def _array(self, field: Field, value: str, *, nullable: bool) -> None:
        elements, count = self.name("a"), self.name("n")
        self._measure(value, elements, count, "()", nullable=nullable)
        if field.wire is not None and field.wire.kind in {"number", "bool"}:
            self._numbers(field, elements, count)
            return
        self._flush_with_length(field, count)
        element = self.name("m")
        self.line(f"for {element} in {elements}:")
        self.indent()
        if field.struct is not None:
            self._struct(schema_of(field.struct), element)
        else:
            self._field(field._replace(is_array=False, nullable=NO_VERSIONS), element)
        self._flush()
        self.dedent()

    def _numbers(self, field: Field, elements: str, count: str) -> None:
        assert field.wire is not None
        code, length_code = field.wire.code, self.length_code(field)
        codes, values = "".join(self._codes), ", ".join(self._values)
        packers = [struct.Struct(f">{codes}{length_code}{short}{code}").pack for short in range(SHORT_ARRAY)]
        packers.append(packers[0])  # null, whose count is -1, has no elements either
        written = f"{count} + 1" if self.flexible else count
        before = f"{values}, " if values else ""
        self.line(f"if {count} < {SHORT_ARRAY}:")
        self.line(f"    w({self.constant('T', packers)}[{count}]({before}{written}, *{elements}))")
        self.line("else:")
        self.indent()
        self._flush_with_length(field, count)
        self.line(f"w({self.constant('A', Numbers(code).pack)}({count})(*{elements}))")
        self.dedent()
