"""A message as objects for JSON, with the names and the forms of Kafka's own converters.

Numbers, booleans and texts are themselves, bytes are base64, ids are base64 without padding in the alphabet of URLs. A tagged
field with its default is left out.

Source: the generated `*JsonConverter` classes of Kafka.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from pybroker.model import TopicId, topic_id_text
from pybroker.protocol.schema import schema_of

if TYPE_CHECKING:
    from pybroker.protocol.schema import Field


def as_json(message: object, version: int) -> dict[str, Any]:
    """Return the fields that a message has in this version."""
    found: dict[str, Any] = {}
    for one in schema_of(type(message)).fields:
        value = getattr(message, one.name)
        if one.versions.has(version) and not (one.tagged.has(version) and _is_default(one, value)):
            found[_camel(one.name)] = _plain(one, value, version)
    return found


def _is_default(field: Field, value: object) -> bool:
    return value == ([] if field.makes_list else field.default)


def _plain(field: Field, value: Any, version: int) -> Any:
    if field.is_array and value is not None:
        return [_element(field, one, version) for one in value]
    return _element(field, value, version)


def _element(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.wire is None:
        return as_json(value, version)
    if field.wire.kind == "uuid":
        return topic_id_text(TopicId(bytes(value)))
    if field.wire.kind == "bytes":
        return base64.b64encode(bytes(value)).decode()
    return value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(one.capitalize() for one in others)
