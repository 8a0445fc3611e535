"""What both code generators share: lines with indentation, names, which fields a version has, and runs of fields of fixed size.

A run is what makes the generated code fast: neighbouring fields of fixed size, and the length of the field that ends them, are
one call of one precompiled `struct.Struct`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.protocol.schema import schema_of

if TYPE_CHECKING:
    from pybroker.protocol.schema import Field, Schema

CODE_SIZES = {"?": 1, "b": 1, "B": 1, "x": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}


class Source:
    """The text of one generated module.

    Attributes:
        constants: what its names stand for, beside those of `RUNTIME` in the compiler.
    """

    def __init__(self, schema: Schema, version: int) -> None:
        self.schema = schema
        self.version = version
        self.flexible = schema.flexible.has(version)
        self.constants: dict[str, object] = {}
        self._lines: list[str] = []
        self._functions: list[list[str]] = []
        self._depth = 0
        self._names = 0

    def name(self, prefix: str) -> str:
        """A name that nothing else has."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, prefix: str, value: object) -> str:
        """A name for a value."""
        name = self.name(prefix)
        self.constants[name] = value
        return name

    def line(self, text: str) -> None:
        """Add a line to the function that is being written."""
        self._lines.append("    " * self._depth + text)

    def indent(self) -> None:
        """Begin the body of what the last line opened."""
        self._depth += 1

    def dedent(self) -> None:
        """End it."""
        self._depth -= 1

    def begin_function(self, heading: str) -> tuple[list[str], int]:
        """Put the current function aside for another one; pass the result to `end_function`."""
        aside = self._lines, self._depth
        self._lines, self._depth = [], 0
        self.line(heading)
        self.indent()
        return aside

    def end_function(self, aside: tuple[list[str], int]) -> None:
        """Go back to the function that was put aside."""
        self._functions.append(self._lines)
        self._lines, self._depth = aside

    def text(self) -> str:
        """The whole module."""
        return "\n\n\n".join("\n".join(lines) for lines in self._functions) + "\n"

    def regular(self, schema: Schema) -> list[Field]:
        """The fields that this version has, in order, without the tagged ones."""
        return [one for one in schema.fields if one.versions.has(self.version) and not one.tagged.has(self.version)]

    def tagged(self, schema: Schema) -> list[Field]:
        """The tagged fields of this version in the order of their tags."""
        fields = [one for one in schema.fields if one.versions.has(self.version) and one.tagged.has(self.version)]
        return sorted(fields, key=lambda one: one.tag)

    def absent(self, schema: Schema) -> list[Field]:
        """The fields that this version does not have."""
        return [one for one in schema.fields if not one.versions.has(self.version)]

    def length_code(self, field: Field) -> str:
        """The letter of the length, or of the first byte of a varint length."""
        if self.flexible:
            return "B"
        return "h" if field.wire is not None and field.wire.kind == "str" and not field.is_array else "i"

    # The least that a field takes

    def element_size_min(self, field: Field) -> int:
        """Bytes that an element of an array, or a value that is not null, takes at least."""
        if field.struct is not None:
            return self._struct_size_min(schema_of(field.struct))
        assert field.wire is not None
        return CODE_SIZES[field.wire.code] if field.wire.code else CODE_SIZES[self.length_code(field._replace(is_array=False))]

    def _struct_size_min(self, schema: Schema) -> int:
        return sum(map(self._size_min, self.regular(schema))) + self.flexible

    def _size_min(self, field: Field) -> int:
        if field.is_array:
            return CODE_SIZES[self.length_code(field)]
        if field.struct is not None and field.nullable.has(self.version):
            return 1
        return self.element_size_min(field)
