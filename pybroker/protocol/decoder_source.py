"""Generates decoders: one flat function per message class and version, loops and branches inlined.

What it writes for FetchRequest v12, partitions of a topic, reads:

    m15 = new(C16)
    m15.partition, m15.current_leader_epoch, m15.fetch_offset, ..., m15.partition_max_bytes, n17 = U18(buf, pos)
    pos += 33
    m15.replica_directory_id = K19
    if n17:
        ...                                     # tagged fields
    add(m15)

Bounds: `unpack_from` and indexing raise at the end of the buffer by themselves; slices do not, so every length is compared with
what is left before it is used, and every count with the least that so many elements take.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from pybroker.protocol.schema import NO_VERSIONS, schema_of
from pybroker.protocol.source import CODE_SIZES, Source
from pybroker.protocol.wire import Numbers

if TYPE_CHECKING:
    from pybroker.protocol.schema import Field, Schema


class DecoderSource(Source):
    """The decoder of one message class in one version."""

    def __init__(self, schema: Schema, version: int) -> None:
        super().__init__(schema, version)
        self._codes: list[str] = []
        self._targets: list[str] = []
        aside = self.begin_function("def decode(buf, pos):")
        self.line("size = len(buf)")
        self.line(f"return {self._message()}")
        self.end_function(aside)

    def _message(self) -> str:
        target = self._struct(self.schema)
        self._flush()
        if not self.schema.is_request:  # librdkafka 2.16 sends three bytes behind Metadata; Kafka's broker does not look there
            self._expect_end()
        return target

    def _expect_end(self) -> None:
        self.line("if pos != size:")
        self.line("    raise spare(size - pos)")

    # Runs

    def _fixed(self, code: str, target: str) -> None:
        self._codes.append(code)
        self._targets.append(target)

    def _flush(self) -> None:
        if not self._codes:
            return
        size = sum(CODE_SIZES[code] for code in self._codes)
        if self._codes == ["B"]:
            self.line(f"{self._targets[0]} = buf[pos]")
        else:
            unpack = self.constant("U", struct.Struct(">" + "".join(self._codes)).unpack_from)
            comma = "," if len(self._targets) == 1 else ""
            self.line(f"{', '.join(self._targets)}{comma} = {unpack}(buf, pos)")
        self.line(f"pos += {size}")
        self._codes, self._targets = [], []

    # Structs

    def _struct(self, schema: Schema) -> str:
        """Decode a struct into a new object; returns the name of that."""
        target = self.name("m")
        self.line(f"{target} = new({self.constant('C', schema.cls)})")
        for one in self.absent(schema) + self.tagged(schema):
            self._set_default(one, f"{target}.{one.name}")
        for one in self.regular(schema):
            self._field(one, f"{target}.{one.name}")
        if self.flexible:
            self._tagged_fields(schema, target)
        return target

    def _set_default(self, field: Field, target: str) -> None:
        if field.makes_list:
            self.line(f"{target} = []")
        elif field.default is None or isinstance(field.default, bool | int | str):
            self.line(f"{target} = {field.default!r}")
        else:
            self.line(f"{target} = {self.constant('K', field.default)}")

    def _tagged_fields(self, schema: Schema, target: str) -> None:
        count = self.name("n")
        self._fixed("B", count)
        self._flush()
        self.line(f"if {count}:")
        self.indent()
        self._widen(count)
        known = self.tagged(schema)
        if known:
            reader = self._tag_reader(known)
            self.line(f"pos = {reader}(buf, pos, size, {count}, {target})")
        else:
            self.line(f"pos = skip_tagged(buf, pos, {count})")
        self.dedent()

    def _tag_reader(self, known: list[Field]) -> str:
        """A function for the rare case that tagged fields are there: it takes those that are known, and skips the rest."""
        readers = [(one, self._tag_value_reader(one)) for one in known]
        reader = self.name("read_tags")
        aside = self.begin_function(f"def {reader}(buf, pos, size, count, m):")
        self.line("for _ in range(count):")
        self.indent()
        self.line("tag, pos = read_uvarint(buf, pos)")
        self.line("n, pos = read_uvarint(buf, pos)")
        self.line("end = pos + n")
        self.line("if end > size:")
        self.line("    raise too_short(n)")
        for number, (one, value_reader) in enumerate(readers):
            self.line(f"{'elif' if number else 'if'} tag == {one.tag}:")
            self.line(f"    m.{one.name} = {value_reader}(buf[pos:end])")
        self.line("pos = end")
        self.dedent()
        self.line("return pos")
        self.end_function(aside)
        return reader

    def _tag_value_reader(self, field: Field) -> str:
        """A function of exactly the bytes of one tagged field."""
        reader = self.name("read_tag")
        aside = self.begin_function(f"def {reader}(buf):")
        self.line("pos, size = 0, len(buf)")
        self._field(field, "value")
        self._flush()
        self._expect_end()
        self.line("return value")
        self.end_function(aside)
        return reader

    # Fields

    def _field(self, field: Field, target: str) -> None:
        if field.is_array:
            self._array(field, target)
        elif field.wire is None:
            self._struct_field(field, target)
        elif field.wire.code:
            self._fixed(field.wire.code, target)
        else:
            self._string(field, target, nullable=field.nullable.has(self.version))

    def _struct_field(self, field: Field, target: str) -> None:
        assert field.struct is not None
        if not field.nullable.has(self.version):
            self.line(f"{target} = {self._struct(schema_of(field.struct))}")
            return
        marker = self.name("n")
        self._fixed("b", marker)
        self._flush()
        self.line(f"if {marker} == -1:")
        self.line(f"    {target} = None")
        self.line(f"elif {marker} != 1:")
        self.line(f"    raise bad_length({marker})")
        self.line("else:")
        self.indent()
        value = self._struct(schema_of(field.struct))
        self._flush()
        self.line(f"{target} = {value}")
        self.dedent()

    def _length(self, field: Field) -> str:
        """Read a length or count, null being negative; returns its name."""
        length = self.name("n")
        self._fixed(self.length_code(field), length)
        self._flush()
        if self.flexible:
            self._widen(length)
            self.line(f"{length} -= 1")
        return length

    def _widen(self, value: str) -> None:
        """Read the rest of a varint whose first byte has been read."""
        self.line(f"if {value} > 127:")
        self.line(f"    {value}, pos = read_uvarint(buf, pos - 1)")

    def _begin_value(self, length: str, target: str, *, nullable: bool) -> None:
        """Open the block that is for values that are not null; close it with `_end_value`."""
        self.line(f"if {length} < 0:")
        if not nullable:
            self.line(f"    raise bad_length({length})")
            return
        if not self.flexible:
            self.line(f"    if {length} != -1:")
            self.line(f"        raise bad_length({length})")
        self.line(f"    {target} = None")
        self.line("else:")
        self.indent()

    def _end_value(self, *, nullable: bool) -> None:
        if nullable:
            self.dedent()

    def _string(self, field: Field, target: str, *, nullable: bool) -> None:
        assert field.wire is not None
        length = self._length(field)
        self._begin_value(length, target, nullable=nullable)
        self.line(f"end = pos + {length}")
        self.line("if end > size:")
        self.line(f"    raise too_short({length})")
        value = {"str": "buf[pos:end].tobytes().decode()", "bytes": "bytes(buf[pos:end])", "records": "buf[pos:end]"}[
            field.wire.kind
        ]
        self.line(f"{target} = {value}")
        self.line("pos = end")
        self._end_value(nullable=nullable)

    def _array(self, field: Field, target: str) -> None:
        nullable = field.nullable.has(self.version)
        count = self._length(field)
        self._begin_value(count, target, nullable=nullable)
        least = self.element_size_min(field)
        if least:
            self.line(f"if {count} * {least} > size - pos:")
            self.line(f"    raise too_short({count})")
        if field.wire is not None and field.wire.kind in {"number", "bool"}:
            unpack = self.constant("A", Numbers(field.wire.code).unpack)
            self.line(f"{target} = list({unpack}({count})(buf, pos))")
            self.line(f"pos += {count} * {least}")
        else:
            self._loop(field, target, count)
        self._end_value(nullable=nullable)

    def _loop(self, field: Field, target: str, count: str) -> None:
        elements, add = self.name("a"), self.name("add")
        self.line(f"{target} = {elements} = []")
        self.line(f"{add} = {elements}.append")
        self.line(f"for _ in range({count}):")
        self.indent()
        if field.struct is not None:
            element = self._struct(schema_of(field.struct))
        else:
            element = self.name("e")
            self._field(field._replace(is_array=False, nullable=NO_VERSIONS), element)
        self._flush()
        self.line(f"{add}({element})")
        self.dedent()
