"""Our codec beside three others: kio for Kafka 4's versions, the hand-written schemas of kafka-python and aiokafka for old ones.

Each reads the bytes that we wrote, must see the same values, and must write the same bytes again.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib
import io
import re
import uuid
from enum import IntEnum
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from pybroker.protocol.codec import decode, encode
from pybroker.protocol.parts import parts_bytes
from pybroker.protocol.schema import Declared, schema_of
from testing.cases import in_case
from testing.scenes.messages import VERSIONED, messages, name_of
from testing.wire.kio_classes import kio_class

OTHER_NAMES = {"OffsetRequest": "ListOffsetsRequest", "OffsetResponse": "ListOffsetsResponse"}
POSITIONAL = (
    "kafka.protocol.old.admin",
    "kafka.protocol.old.api_versions",
    "kafka.protocol.old.commit",
    "kafka.protocol.old.fetch",
    "kafka.protocol.old.find_coordinator",
    "kafka.protocol.old.group",
    "kafka.protocol.old.init_producer_id",
    "kafka.protocol.old.list_offsets",
    "kafka.protocol.old.metadata",
    "kafka.protocol.old.offset_for_leader_epoch",
    "kafka.protocol.old.produce",
    "aiokafka.protocol.admin",
    "aiokafka.protocol.coordination",
    "aiokafka.protocol.commit",
    "aiokafka.protocol.fetch",
    "aiokafka.protocol.group",
    "aiokafka.protocol.metadata",
    "aiokafka.protocol.offset",
    "aiokafka.protocol.produce",
    "aiokafka.protocol.transaction",
)
WRONG = {
    *(("aiokafka.protocol.offset", f"OffsetRequest_v{version}") for version in (4, 5)),  # 8 bytes for the leader epoch
    ("kafka.protocol.old.admin", "DescribeLogDirsRequest_v0"),  # one partition for the list of them
}
NESTED = {"CreatePartitionsRequest"}
"""Classes whose fields these libraries group in another way, with the same bytes; kio has these versions, too."""


def present(struct: Declared, version: int) -> list[Any]:
    """Return the values of a struct in the order of its declaration."""
    return [getattr(struct, one.name) for one in struct.__schema__.fields if one.versions.has(version)]


# kio


KIO = [(cls, version) for cls, version in VERSIONED if kio_class(cls, version) is not None]


def tame(struct: Any, theirs: Any, version: int) -> None:
    """Keep values within what kio's types allow: known error codes, and times that datetime can hold."""
    fields = [one for one in schema_of(type(struct)).fields if one.versions.has(version)]
    for ours, other in zip(fields, dataclasses.fields(theirs), strict=True):
        value = getattr(struct, ours.name)
        kind = other.metadata.get("kafka_type")
        if kind == "error_code":
            setattr(struct, ours.name, value % 100)
        elif kind in {"datetime_i64", "timedelta_i64"}:
            may_be_null = kind == "timedelta_i64" or "None" in str(other.type)
            setattr(struct, ours.name, -1 if value < 0 and may_be_null else value % 10**12)
        elif ours.struct is not None and value is not None:
            inner = re.search(r"\w+\.(\w+)['>]", repr(other.type)) or re.search(r"(\w+)", str(other.type))
            assert inner is not None
            element = getattr(importlib.import_module(theirs.__module__), ours.struct.__name__.removeprefix("Response"))
            for one in value if ours.is_array else [value]:
                if one is not schema_of(ours.struct).shared_default:
                    tame(one, element, version)


def same(ours: Any, theirs: Any, version: int) -> bool:
    """Return whether kio read our values."""
    if isinstance(ours, Declared):
        others = [getattr(theirs, one.name) for one in dataclasses.fields(theirs)]
        return all(same(a, b, version) for a, b in zip(present(ours, version), others, strict=True))
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(same(a, b, version) for a, b in zip(ours, theirs, strict=True))
    return bool(ours == _plain(theirs, ours))


def _plain(value: Any, ours: Any) -> Any:
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(milliseconds=1)
    if isinstance(value, dt.datetime):
        return (value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, IntEnum):
        return int(value)
    if value is None:
        return {bytes(16): bytes(16), -1: -1}.get(ours)  # kio's zero UUID and its "no time" are None
    return value


@pytest.mark.parametrize("cls", dict.fromkeys(cls for cls, _ in KIO))  # an example has a message of each version
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_kio_reads_and_writes_the_same(cls: type, data: st.DataObject) -> None:
    for version in (version for one, version in KIO if one is cls):
        theirs = kio_class(cls, version)
        message = data.draw(messages(cls, version))
        tame(message, theirs, version)
        with in_case(name_of((cls, version))):
            wire = parts_bytes(encode(message, version))
            seen, size = entity_reader(theirs)(wire, 0)
            assert size == len(wire)
            assert same(message, seen, version)
            buffer = io.BytesIO()
            entity_writer(theirs)(buffer, seen)
            assert buffer.getvalue() == wire
            assert decode(cls, version, memoryview(buffer.getvalue())) == message


# kafka-python and aiokafka


def positional_classes() -> list[tuple[str, type, int, Any]]:
    """Return (library, our class, version, their class) of everything that is not flexible and that both sides have."""
    ours = {cls.__name__: cls for cls, _ in VERSIONED}
    found = []
    for name in POSITIONAL:
        module: ModuleType = importlib.import_module(name)
        for attribute, theirs in sorted(vars(module).items()):
            match = re.fullmatch(r"(\w+)_v(\d+)", attribute)
            if match is None:
                continue
            cls = ours.get(OTHER_NAMES.get(match[1], match[1]))
            version = int(match[2])
            if cls is None or cls.__name__ in NESTED or (name, attribute) in WRONG:
                continue
            if not schema_of(cls).flexible.has(version):
                found.append((name.partition(".")[0], cls, version, theirs))
    return found


OLD = positional_classes()


def positional(value: Any, schema: Any, version: int) -> Any:
    """Return our value in the shape of the other schema: tuples for structs, the field itself where that schema has no struct."""
    if isinstance(value, list):
        return [positional(one, schema.array_of, version) for one in value]
    if isinstance(value, Declared):
        values = present(value, version)
        if not hasattr(schema, "names"):
            (value,) = values
            return positional(value, schema, version)
        return tuple(positional(one, field, version) for one, field in zip(values, schema.fields, strict=True))
    if getattr(schema, "__name__", "") == "BitField":  # kafka-python's sets of operations
        bits = {bit for bit in range(32) if value >> bit & 1}
        return None if bits == {31} else bits
    return value


@pytest.mark.parametrize(("library", "cls"), dict.fromkeys((library, cls) for library, cls, _, _ in OLD))
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_old_schemas_read_and_write_the_same(library: str, cls: type, data: st.DataObject) -> None:
    for version, theirs in ((version, theirs) for name, one, version, theirs in OLD if (name, one) == (library, cls)):
        message = data.draw(messages(cls, version))
        with in_case(name_of((cls, version))):
            wire = parts_bytes(encode(message, version))
            values = positional(message, theirs.SCHEMA, version)
            stream = io.BytesIO(wire)
            assert tuple(theirs.SCHEMA.decode(stream)) == (values if isinstance(values, tuple) else (values,))
            assert stream.read() == b""
            assert theirs.SCHEMA.encode(values) == wire


def test_the_oracles_have_the_versions_that_the_tests_name() -> None:
    known = {(cls.__name__, version) for _, cls, version, _ in OLD}
    assert {("ProduceRequest", 0), ("FetchRequest", 3), ("ListOffsetsResponse", 0), ("CreateTopicsRequest", 0)} <= known
    assert {
        ("OffsetCommitRequest", 1),
        ("OffsetFetchResponse", 0),
        ("JoinGroupRequest", 0),
        ("DescribeConfigsResponse", 0),
    } <= known
    assert len(KIO) > 350
