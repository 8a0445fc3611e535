"""How messages are declared: plain classes with annotations, and Kafka's own notation for versions.

    class ListOffsetsRequest(Request, api_key=ApiKey.LIST_OFFSETS, versions="0-11", flexible="6+"):
        replica_id: Int32 = field(default=-1)
        isolation_level: Int8 = field("2+")
        topics: list[ListOffsetsTopic] = field()

A declared class has slots, a constructor by keyword in which every field has Kafka's default, equality and a repr. One class
serves all versions. Nothing else happens at import: annotations are resolved, and constructors and codecs generated at first use.

Versions are "0-13", "3+" or "7"; a field without them is in every version of its message. A field whose type allows None can be
null in all of its versions, unless `nullable` names fewer. A struct that is a field's default is shared by all messages and
refuses changes: assign a new one.

Source: the notation of Kafka's message JSON, clients/src/main/resources/common/message/README.md.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, dataclass_transform

from pybroker.protocol.wire import ZERO_UUID, Wire

if typing.TYPE_CHECKING:
    from pybroker.protocol.api_keys import ApiKey
    from pybroker.protocol.parts import Part

    Encoder = Callable[[object, bytes | None], list[Part]]
    """A function that returns the parts of a message: the body alone for None, otherwise size, head and body.
    The number bounds the elements that it takes at once; 0 is no bound."""

T = TypeVar("T")

VERSION_MAX: Final = 32767
ALWAYS: Final = "0+"
STRING: Final = Wire("", "str")
BYTES: Final = Wire("", "bytes")


class Versions(NamedTuple):
    """A range that includes both ends."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read Kafka's notation; "none" is a range without versions."""
        if text == "none":
            return NO_VERSIONS
        low, dash, high = text.partition("-")
        if low.endswith("+"):
            return cls(int(low[:-1]), VERSION_MAX)
        return cls(int(low), int(high) if dash else int(low))

    def has(self, version: int) -> bool:
        """Return whether the version is in the range."""
        return self.lowest <= version <= self.highest


NO_VERSIONS: Final = Versions(0, -1)


class _Missing:
    """No default was declared."""


MISSING: Final = _Missing()


class FieldInfo(NamedTuple):
    """The arguments of `field`, as text; `Schema.fields` holds their meaning."""

    versions: str
    default: object
    nullable: str | None
    tag: int | None
    ignorable: bool


def field(
    versions: str = ALWAYS,
    *,
    default: object = MISSING,
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare a field.

    versions: the versions that have the field.
    default: Kafka's default, if it is not zero, empty or false.
    nullable: the versions in which it may be null, if not all.
    tag: its number as a tagged field.
    ignorable: whether a value is silently left out in a version without the field, instead of refused.
    """
    return FieldInfo(versions, default, nullable, tag, ignorable)


class Field(NamedTuple):
    """A resolved field.

    Attributes:
        wire: how it, or each of its elements, is encoded on the wire; None for structs.
        struct: the class of it, or of its elements; None for others.
        tag: its number in the versions of `tagged`.
        default: a value; lists have None here unless null is their default, and `makes_list`.
    """

    name: str
    wire: Wire | None
    struct: type | None
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int
    tagged: Versions
    ignorable: bool
    default: object
    makes_list: bool


class Schema:
    """The declaration behind one class, with all that is generated from it."""

    __slots__ = (
        "_declared",
        "_fields",
        "_shared",
        "api_key",
        "cls",
        "decoders",
        "encoders",
        "flexible",
        "is_request",
        "versions",
    )

    def __init__(
        self, declared: dict[str, FieldInfo], *, versions: str, flexible: str, api_key: ApiKey | None, is_request: bool
    ) -> None:
        self._declared = declared
        self._fields: tuple[Field, ...] | None = None
        self._shared: object | None = None
        self.cls: type = object
        self.api_key = api_key
        self.is_request = is_request
        self.versions = Versions.parse(versions)
        self.flexible = Versions.parse(flexible)
        self.decoders: dict[int, Callable[[memoryview, int, int], Any]] = {}
        self.encoders: dict[int, tuple[Encoder, Callable[[int], bytes]]] = {}
        """By version: the encoder, and the function that makes a response's header from a correlation id."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields in their order on the wire."""
        if self._fields is None:
            hints = typing.get_type_hints(self.cls, include_extras=True)
            self._fields = tuple(_resolve(name, hints[name], info) for name, info in self._declared.items())
        return self._fields

    @property
    def shared_default(self) -> object:
        """The only instance that stands for "all defaults" in every field of this struct."""
        if self._shared is None:
            frozen = type(self.cls.__name__, (self.cls,), {"__slots__": (), "__setattr__": _refuse_change})
            self._shared = object.__new__(frozen)
            for one in self.fields:
                object.__setattr__(self._shared, one.name, [] if one.makes_list else one.default)
        return self._shared


def schema_of(cls: type) -> Schema:
    """Return the schema of a declared class. Raises TypeError for any other class."""
    schema = getattr(cls, "__schema__", None)
    if not isinstance(schema, Schema):
        raise TypeError(f"{cls!r} is not declared as a message")
    return schema


class Declared:
    """The base of all declared classes when the program runs."""

    __slots__ = ()
    __schema__: Schema
    __hash__ = None  # type: ignore[assignment]  # equality is by value and the values change

    def __init__(self, **values: object) -> None:
        cls = self.__schema__.cls
        init = _make_init(self.__schema__)
        type.__setattr__(cls, "__init__", init)  # from now on, instead of this method
        init(self, **values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Declared) or self.__schema__ is not other.__schema__:
            return NotImplemented
        return all(getattr(self, one.name) == getattr(other, one.name) for one in self.__schema__.fields)

    def __repr__(self) -> str:
        values = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in self.__schema__.fields)
        return f"{type(self).__name__}({values})"


@dataclass_transform(kw_only_default=True)
class _Declaring(type):
    """Makes a plain class with slots out of a declaration: its base is `Declared`, whatever the declaration has."""

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        body: dict[str, Any],
        *,
        versions: str = ALWAYS,
        flexible: str = "none",
        api_key: ApiKey | None = None,
    ) -> Any:
        """Return the class. `flexible`: the versions with compact lengths and tagged fields, or "none"."""
        if not bases:
            return super().__new__(cls, name, bases, body)
        declared = {one: body.pop(one) for one in body.get("__annotations__", ())}
        schema = Schema(declared, versions=versions, flexible=flexible, api_key=api_key, is_request=Request in bases)
        schema.cls = type(name, (Declared,), {**body, "__schema__": schema, "__slots__": tuple(declared)})
        return schema.cls


class Struct(metaclass=_Declaring):
    """A part of messages. The message that contains it determines which versions are flexible."""


class Message(metaclass=_Declaring):
    """A message that is neither request nor response, such as the key or value of a record."""


class Request(metaclass=_Declaring):
    """A request."""


class Response(metaclass=_Declaring):
    """A response."""


def _refuse_change(self: Declared, name: str, value: object) -> None:
    del value
    raise AttributeError(f"cannot set {name}: this default is shared by all messages, assign a new {type(self).__name__}")


def _resolve(name: str, hint: Any, info: FieldInfo) -> Field:
    """Resolve an annotation and `field(...)` into a field."""
    wire, element, is_array, may_be_null = _read_hint(hint)
    versions = Versions.parse(info.versions)
    tagged = NO_VERSIONS if info.tag is None else versions
    nullable = NO_VERSIONS if not may_be_null else Versions.parse(info.nullable) if info.nullable else versions
    default, makes_list = info.default, False
    if default is MISSING:
        makes_list = is_array
        default = None if is_array else _natural_default(wire, element)
    tag = -1 if info.tag is None else info.tag
    return Field(name, wire, element, is_array, versions, nullable, tag, tagged, info.ignorable, default, makes_list)


def _read_hint(hint: Any) -> tuple[Wire | None, type | None, bool, bool]:
    """Return (wire, struct, whether it is an array, whether it may be null)."""
    if typing.get_origin(hint) is typing.Annotated:
        wire = hint.__metadata__[0]
        return wire, None, False, wire.kind == "records"
    if typing.get_origin(hint) in {types.UnionType, typing.Union}:
        (inner,) = [one for one in typing.get_args(hint) if one is not types.NoneType]
        return *_read_hint(inner)[:3], True
    if typing.get_origin(hint) is list:
        wire, element, _, _ = _read_hint(typing.get_args(hint)[0])
        return wire, element, True, False
    if hint is str:
        return STRING, None, False, False
    if hint is bytes:
        return BYTES, None, False, False
    schema_of(hint)
    return None, hint, False, False


def _natural_default(wire: Wire | None, element: type | None) -> object:
    if wire is None:
        assert element is not None
        return schema_of(element).shared_default
    if wire.code == "d":
        return 0.0
    return {"number": 0, "bool": False, "uuid": ZERO_UUID, "str": "", "bytes": b"", "records": None}[wire.kind]


def _make_init(schema: Schema) -> Callable[..., None]:
    """Generate a constructor that is as fast as a hand-written one."""
    parameters, body = [], []
    namespace: dict[str, Any] = {"_new": MISSING}
    for number, one in enumerate(schema.fields):
        if one.makes_list:
            parameters.append(f"{one.name}=_new")
            body.append(f"    self.{one.name} = [] if {one.name} is _new else {one.name}")
        else:
            namespace[f"_default{number}"] = one.default
            parameters.append(f"{one.name}=_default{number}")
            body.append(f"    self.{one.name} = {one.name}")
    star = "*, " if parameters else ""
    source = f"def __init__(self, {star}{', '.join(parameters)}):\n" + "\n".join(body or ["    pass"])
    exec(source, namespace)  # noqa: S102  (made of declared names only)
    init: Callable[..., None] = namespace["__init__"]
    init.__qualname__ = f"{schema.cls.__qualname__}.__init__"
    return init
