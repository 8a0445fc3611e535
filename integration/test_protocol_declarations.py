"""Our declarations against Kafka's own: the JSON definitions inside the kafka-clients jars.

The newest 4.x is the reference; the newest 3.9.x is for the versions and fields that 4.0 dropped.
"""

from __future__ import annotations

import json
import re
import zipfile
from typing import Any, NamedTuple

import pytest

from integration.maven import jar
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import MESSAGES
from pybroker.protocol.schema import Field, Versions, schema_of

NEWEST = "4.4.0"
OLD = "3.9.2"

CODES = {"b": "int8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32", "q": "int64", "d": "float64"}
KINDS = {"bool": "bool", "uuid": "uuid", "str": "string", "bytes": "bytes", "records": "records"}


class Plain(NamedTuple):
    """One field, as far as it matters on the wire; ranges are cut to the versions of the message."""

    name: str
    kind: str
    versions: tuple[int, ...]
    nullable: tuple[int, ...]
    tagged: tuple[int, ...]
    tag: int | None
    default: object
    ignorable: bool
    fields: tuple[Plain, ...]


@pytest.fixture(scope="module")
def newest() -> dict[str, Any]:
    return definitions(NEWEST)


@pytest.fixture(scope="module")
def old() -> dict[str, Any]:
    return definitions(OLD)


def definitions(version: str) -> dict[str, Any]:
    """All message definitions of a release, by name."""
    found = {}
    with zipfile.ZipFile(jar("org.apache.kafka", "kafka-clients", version)) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                definition = json.loads(text)
                found[definition["name"]] = definition
    return found


def snake(name: str) -> str:
    """Kafka's field name as we write it."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def numbers(text: str | None, within: list[int]) -> tuple[int, ...]:
    if text is None:
        return ()
    return tuple(version for version in within if Versions.parse(text).has(version))


def theirs(definition: dict[str, Any], within: list[int]) -> tuple[Plain, ...]:
    """The fields of a definition that exist in some of these versions."""
    plain = [_their_field(field, within) for field in definition["fields"]]
    return tuple(field for field in plain if field.versions)


def _their_field(field: dict[str, Any], within: list[int]) -> Plain:
    kind = field["type"]
    versions = numbers(field["versions"], within)
    element = kind.removeprefix("[]")
    is_struct = element[0].isupper()
    return Plain(
        name=snake(field["name"]),
        kind=kind,
        versions=versions,
        nullable=numbers(field.get("nullableVersions"), list(versions)),
        tagged=numbers(field.get("taggedVersions"), list(versions)),
        tag=field.get("tag"),
        default=_their_default(field, element),
        ignorable=bool(field.get("ignorable")) and len(versions) < len(within),
        fields=theirs(field, within) if is_struct else (),
    )


def _their_default(field: dict[str, Any], element: str) -> object:
    given = field.get("default")
    if given == "null" or (element == "records" and given is None):
        return None
    if field["type"].startswith("[]"):
        return []
    if element[0].isupper():
        return "struct"
    if element == "string":
        return given or ""
    if element == "bool":
        return str(given).lower() == "true"
    if element == "uuid":
        return bytes(16)
    if element == "bytes":
        return b""
    return int(str(given or 0), 0)


def ours(cls: type, within: list[int]) -> tuple[Plain, ...]:
    """The same, of a declared class."""
    plain = [_our_field(field, within) for field in schema_of(cls).fields]
    return tuple(field for field in plain if field.versions)


def _our_field(field: Field, within: list[int]) -> Plain:
    versions = tuple(version for version in within if field.versions.has(version))
    if field.struct is not None:
        element = field.struct.__name__
    else:
        assert field.wire is not None
        element = KINDS.get(field.wire.kind) or CODES[field.wire.code]
    default = field.default
    if field.makes_list:
        default = []
    elif field.struct is not None and default is not None:
        assert default == field.struct()
        default = "struct"
    return Plain(
        name=field.name,
        kind=f"[]{element}" if field.is_array else element,
        versions=versions,
        nullable=tuple(version for version in versions if field.nullable.has(version)),
        tagged=tuple(version for version in versions if field.tagged.has(version)),
        tag=None if field.tag < 0 else field.tag,
        default=default,
        ignorable=field.ignorable and len(versions) < len(within),
        fields=() if field.struct is None else ours(field.struct, within),
    )


def spoken(definition: dict[str, Any]) -> list[int]:
    versions = Versions.parse(definition["validVersions"])
    return list(range(versions.lowest, versions.highest + 1))


@pytest.mark.parametrize("cls", [cls for pair in MESSAGES for cls in pair])
def test_a_message_is_declared_as_kafka_defines_it(cls: type, newest: dict[str, Any], old: dict[str, Any]) -> None:
    schema = schema_of(cls)
    dropped = [version for version in spoken(old[cls.__name__]) if version < spoken(newest[cls.__name__])[0]]
    for definition, within in ((newest[cls.__name__], spoken(newest[cls.__name__])), (old[cls.__name__], dropped)):
        assert schema.api_key == definition["apiKey"]
        assert schema.is_request == (definition["type"] == "request")
        assert definition.get("commonStructs", []) == []
        flexible = tuple(version for version in within if schema.flexible.has(version))
        assert flexible == numbers(definition["flexibleVersions"], within)
        assert ours(cls, within) == theirs(definition, within)
    assert list(range(schema.versions.lowest, schema.versions.highest + 1)) == dropped + spoken(newest[cls.__name__])


def test_api_keys_are_kafkas(newest: dict[str, Any]) -> None:
    wanted = {
        snake(name.removesuffix("Request")).upper(): definition["apiKey"]
        for name, definition in newest.items()
        if definition["type"] == "request"
    }
    dropped = {"LEADER_AND_ISR": 4, "STOP_REPLICA": 5, "UPDATE_METADATA": 6, "CONTROLLED_SHUTDOWN": 7}
    assert {key.name: key.value for key in ApiKey} == wanted | dropped


def test_error_codes_have_no_gap() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, 137))
