"""Checks the JSON object of a request against its schema, which is also in the OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.admin.calls import BAD_REQUEST, AdminError

if TYPE_CHECKING:
    from pybroker.admin.calls import Json

_CLASSES: Final = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list, "null": type(None)}


def schema_of(required: tuple[str, ...] = (), **properties: Json) -> Json:
    """Return the schema of an object that has these fields and no others."""
    return {"type": "object", "additionalProperties": False, "required": [*required], "properties": properties}


def checked(value: Any, schema: Json, name: str = "the body") -> Any:
    """Return the value, which is what the schema demands. Raises AdminError that names what is not."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    is_right = any(isinstance(value, _CLASSES[kind]) for kind in kinds)
    if not is_right or (isinstance(value, bool) and "boolean" not in kinds):
        raise AdminError(BAD_REQUEST, f"{name} must be {' or '.join(kinds)}")
    if "enum" in schema and value not in schema["enum"]:
        raise AdminError(BAD_REQUEST, f"{name} must be one of {', '.join(schema['enum'])}")
    if "minimum" in schema and isinstance(value, int) and value < schema["minimum"]:
        raise AdminError(BAD_REQUEST, f"{name}={value}: it must be at least {schema['minimum']}")
    if isinstance(value, list) and "items" in schema:
        for number, one in enumerate(value):
            checked(one, schema["items"], f"{name}[{number}]")
    if isinstance(value, dict) and "properties" in schema:
        _check_fields(value, schema, name)
    elif isinstance(value, dict) and "additionalProperties" in schema:
        for key, one in value.items():
            checked(one, schema["additionalProperties"], key)
    return value


def _check_fields(value: Json, schema: Json, name: str) -> None:
    properties = schema["properties"]
    if unknown := sorted(value.keys() - properties.keys()):
        raise AdminError(BAD_REQUEST, f"{name} has no field {', '.join(unknown)}, but {', '.join(properties)}")
    if missing := [one for one in schema["required"] if one not in value]:
        raise AdminError(BAD_REQUEST, f"{name} needs {', '.join(missing)}")
    for key, one in value.items():
        checked(one, properties[key], key)
