"""Messages made from their declarations: random ones, and messages in which every field is set."""

from __future__ import annotations

import functools
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from pybroker.protocol.messages import MESSAGES, message_classes
from pybroker.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pybroker.protocol.messages.group_records import RECORDS
from pybroker.protocol.messages.metadata_records import METADATA_RECORDS
from pybroker.protocol.schema import Field, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.protocol.wire import Wire

REQUESTS_AND_RESPONSES: Final[list[type]] = [cls for key in MESSAGES for cls in message_classes(key)]
GROUP_RECORDS: Final[list[type]] = [cls for pair in RECORDS.values() for cls in pair]
CONSUMER_PROTOCOL: Final[list[type]] = [ConsumerProtocolSubscription, ConsumerProtocolAssignment]
OF_METADATA: Final[list[type]] = list(METADATA_RECORDS.values())
CLASSES: Final = REQUESTS_AND_RESPONSES + GROUP_RECORDS + CONSUMER_PROTOCOL + OF_METADATA


def versions_of(cls: type) -> range:
    """Return all versions of a message."""
    versions = schema_of(cls).versions
    return range(versions.lowest, versions.highest + 1)


VERSIONED: Final[list[tuple[type, int]]] = [(cls, version) for cls in CLASSES for version in versions_of(cls)]

RANGES: Final = {"b": (-(2**7), 2**7 - 1), "h": (-(2**15), 2**15 - 1), "i": (-(2**31), 2**31 - 1), "q": (-(2**63), 2**63 - 1)}
RANGES_UNSIGNED: Final = {"H": (0, 2**16 - 1), "I": (0, 2**32 - 1)}


def name_of(cls_and_version: tuple[type, int]) -> str:
    """Return the name of a message and version in the ids of tests."""
    cls, version = cls_and_version
    return f"{cls.__name__}-v{version}"


@functools.cache
def messages(cls: type, version: int) -> st.SearchStrategy[Any]:
    """Draw messages that the version can carry: fields that the version lacks have their defaults."""
    present = [one for one in schema_of(cls).fields if one.versions.has(version)]
    return st.builds(cls, **{one.name: _values(one, version) for one in present})


def _values(field: Field, version: int) -> st.SearchStrategy[Any]:
    values = messages(field.struct, version) if field.struct is not None else _primitives(field.wire)
    if field.is_array:
        values = st.lists(values, max_size=12 if field.struct is None else 3)
    if field.nullable.has(version):
        values = st.none() | values
    return values


@functools.cache
def _primitives(wire: Wire | None) -> st.SearchStrategy[Any]:
    assert wire is not None
    simple: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "uuid": st.binary(min_size=16, max_size=16),
        "str": st.text(max_size=20) | st.just("long" * 40),
        "bytes": st.binary(max_size=20),
        "records": st.binary(max_size=200),
    }
    if wire.kind in simple:
        return simple[wire.kind]
    if wire.code == "d":
        return st.floats(allow_nan=False)
    return st.integers(*(RANGES | RANGES_UNSIGNED)[wire.code])


def full(cls: type, version: int, numbers: Iterator[int] | None = None) -> Any:
    """Return a message with two elements in every array, nothing null, and no field of the version at its default."""
    numbers = numbers or count(7)
    present = [one for one in schema_of(cls).fields if one.versions.has(version)]
    return cls(**{one.name: _full_value(one, version, numbers) for one in present})


def _full_value(field: Field, version: int, numbers: Iterator[int]) -> Any:
    if field.is_array:
        one = field._replace(is_array=False)
        return [_full_value(one, version, numbers), _full_value(one, version, numbers)]
    if field.struct is not None:
        return full(field.struct, version, numbers)
    assert field.wire is not None
    number = next(numbers) % 100
    if field.wire.kind == "number":
        return number
    return {
        "bool": field.default is not True,
        "uuid": bytes([number]) * 16,
        "str": f"s{number}é",
        "bytes": f"b{number}".encode(),
        "records": f"records {number}".encode(),
    }[field.wire.kind]
