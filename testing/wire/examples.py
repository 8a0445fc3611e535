"""Requests of any API, made from the declarations of the messages."""

from __future__ import annotations

from typing import Any

from pybroker.protocol.schema import Field, schema_of

NUMBERS = {"acks": -1, "replica_id": -1, "session_epoch": -1, "num_partitions": 1, "replication_factor": 1, "permission_type": 3}


def example(cls: type[Any], version: int, name: str, *, topic_id: bytes = bytes(16), is_open: bool = False, **values: Any) -> Any:
    """Return a message of a version with `name` for each text and one element in each list; with `is_open` all that may be null
    is null, and lists are empty. `values` are those of fields that are to have others, at any depth.
    """

    def value_of(field: Field) -> Any:
        if field.name in values:
            return values[field.name]
        if is_open and (field.nullable.has(version) or field.is_array):
            return None if field.nullable.has(version) else []
        one = element_of(field)
        return [one] if field.is_array else one

    def element_of(field: Field) -> Any:
        if field.struct is not None:
            return example(field.struct, version, name, topic_id=topic_id, is_open=is_open, **values)
        kind = "" if field.wire is None else field.wire.kind
        if kind == "str":
            return name
        if kind == "uuid":
            return topic_id
        if kind in ("bytes", "records"):
            return b""
        return NUMBERS.get(field.name, False if kind == "bool" else 0)

    return cls(**{field.name: value_of(field) for field in schema_of(cls).fields if field.versions.has(version)})
