"""Our declarations beside Kafka's own: the JSON definitions inside the kafka-clients jars.

The newest 4.x is the reference; the newest 3.9.x is the reference for the versions and fields that 4.0 dropped.
"""

from __future__ import annotations

import json
import re
import zipfile
from typing import Any, NamedTuple

import pytest

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.group_records import RECORDS
from pybroker.protocol.messages.metadata_records import METADATA_RECORDS, MetadataRecordType
from pybroker.protocol.schema import Field, Versions, schema_of
from testing.process.maven import jar
from testing.scenes.messages import CONSUMER_PROTOCOL, GROUP_RECORDS, OF_METADATA, REQUESTS_AND_RESPONSES

NEWEST = "4.4.0"
OLD = "3.9.2"

CODES = {"b": "int8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32", "q": "int64", "d": "float64"}
KINDS = {"bool": "bool", "uuid": "uuid", "str": "string", "bytes": "bytes", "records": "records"}


class Plain(NamedTuple):
    """A field with everything that counts on the wire; its ranges of versions are cut to the versions of the message."""

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


@pytest.fixture(scope="module")
def records() -> dict[str, Any]:
    return definitions(NEWEST, artifact="kafka-group-coordinator")


def definitions(version: str, artifact: str = "kafka-clients") -> dict[str, Any]:
    """Return all message definitions of a release, by name."""
    found = {}
    with zipfile.ZipFile(jar("org.apache.kafka", artifact, version)) as archive:
        for name in archive.namelist():
            if name.startswith(("common/message/", "common/metadata/")) and name.endswith(".json"):
                text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                definition = json.loads(text)
                found[definition["name"]] = definition
    return found


def snake(name: str) -> str:
    """Return Kafka's name of a field in our spelling."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def numbers(text: str | None, within: list[int]) -> tuple[int, ...]:
    if text is None:
        return ()
    return tuple(version for version in within if Versions.parse(text).has(version))


def theirs(definition: dict[str, Any], within: list[int]) -> tuple[Plain, ...]:
    """Return the fields of a definition that exist in some of these versions."""
    common = {one["name"]: one["fields"] for one in definition.get("commonStructs", [])}
    return _their_fields(definition["fields"], common, within)


def _their_fields(fields: list[Any], common: dict[str, list[Any]], within: list[int]) -> tuple[Plain, ...]:
    plain = [_their_field(field, common, within) for field in fields]
    return tuple(field for field in plain if field.versions)


def _their_field(field: dict[str, Any], common: dict[str, list[Any]], within: list[int]) -> Plain:
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
        fields=_their_fields(field.get("fields") or common[element], common, list(versions)) if is_struct else (),
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
    """Return the same of a class that we declare."""
    plain = [_our_field(field, within) for field in schema_of(cls).fields]
    return tuple(field for field in plain if field.versions)


def _our_field(field: Field, within: list[int]) -> Plain:
    versions = tuple(version for version in within if field.versions.has(version))
    if field.struct is not None:
        element = field.struct.__name__.removeprefix("Response")
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
        fields=() if field.struct is None else ours(field.struct, list(versions)),
    )


def spoken(definition: dict[str, Any]) -> list[int]:
    versions = Versions.parse(definition["validVersions"])
    return list(range(versions.lowest, versions.highest + 1))


def flexible_versions(cls: type, within: list[int]) -> tuple[int, ...]:
    return tuple(version for version in within if schema_of(cls).flexible.has(version))


def assert_declared_as(cls: type, definition: dict[str, Any], within: list[int]) -> None:
    assert flexible_versions(cls, within) == numbers(definition["flexibleVersions"], within)
    assert ours(cls, within) == theirs(definition, within)


@pytest.mark.parametrize("cls", REQUESTS_AND_RESPONSES)
def test_a_message_is_declared_as_kafka_defines_it(cls: type, newest: dict[str, Any], old: dict[str, Any]) -> None:
    schema = schema_of(cls)
    definition = newest[cls.__name__]
    current = spoken(definition)
    before = old.get(cls.__name__, definition)
    dropped = [version for version in spoken(before) if version < current[0]]
    for one, within in ((definition, current), (before, dropped)):
        assert schema.api_key == one["apiKey"]
        assert schema.is_request == (one["type"] == "request")
        assert_declared_as(cls, one, within)
    assert list(range(schema.versions.lowest, schema.versions.highest + 1)) == dropped + current


@pytest.mark.parametrize("cls", GROUP_RECORDS)
def test_a_record_is_declared_as_kafka_defines_it(cls: type, records: dict[str, Any]) -> None:
    definition = records[cls.__name__]
    kind = "key" if cls.__name__.endswith("Key") else "value"
    assert definition["type"] == f"coordinator-{kind}"
    (record_type,) = [record_type for record_type, pair in RECORDS.items() if cls in pair]
    assert record_type == definition["apiKey"]
    assert schema_of(cls).versions == Versions.parse(definition["validVersions"])
    assert_declared_as(cls, definition, spoken(definition))


@pytest.fixture(scope="module")
def metadata_records() -> dict[str, Any]:
    return definitions(NEWEST, artifact="kafka-metadata")


@pytest.mark.parametrize("cls", OF_METADATA)
def test_a_metadata_record_is_declared_as_kafka_defines_it(cls: type, metadata_records: dict[str, Any]) -> None:
    definition = metadata_records[cls.__name__]
    (record_type,) = [record_type for record_type, one in METADATA_RECORDS.items() if cls is one]
    assert (definition["type"], definition["apiKey"]) == ("metadata", record_type)
    assert schema_of(cls).versions == Versions.parse(definition["validVersions"])
    assert_declared_as(cls, definition, spoken(definition))


def test_every_type_of_metadata_record_has_a_name(metadata_records: dict[str, Any]) -> None:
    assert {int(one) for one in MetadataRecordType} == {one["apiKey"] for one in metadata_records.values() if "apiKey" in one}


@pytest.mark.parametrize("cls", CONSUMER_PROTOCOL)
def test_the_consumer_protocol_is_declared_as_kafka_defines_it(cls: type, newest: dict[str, Any]) -> None:
    definition = newest[cls.__name__]
    assert schema_of(cls).versions == Versions.parse(definition["validVersions"])
    assert_declared_as(cls, definition, spoken(definition))


def test_api_keys_are_those_of_kafka(newest: dict[str, Any]) -> None:
    wanted = {
        snake(name.removesuffix("Request")).upper(): definition["apiKey"]
        for name, definition in newest.items()
        if definition["type"] == "request"
    }
    dropped = {"LEADER_AND_ISR": 4, "STOP_REPLICA": 5, "UPDATE_METADATA": 6, "CONTROLLED_SHUTDOWN": 7}
    assert {key.name: key.value for key in ApiKey} == wanted | dropped


def test_error_codes_have_no_gap() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, 137))
