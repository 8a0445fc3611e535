"""The description of the API for OpenAPI 3.1, made from its routes, and from the fields of a rule."""

from __future__ import annotations

import dataclasses
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from pybroker import __version__
from pybroker.faults.rule import ACTIONS, COUNTS, Rule
from pybroker.times.lanes import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pybroker.admin.calls import Json
    from pybroker.admin.route import Route

_TYPES: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "tuple[int, int]": "array"}

COUNTED: Final = "As a response has it; a rule that is sent with it continues that one."

COMMON: Final = {
    400: "The path has a parameter that this request does not have.",
    401: "The request has no token and no user of the broker, or a wrong one.",
    403: "The Host or the Origin of the request is that of another site, or no ACL allows this to the user.",
    413: "The body is longer than 1 MB.",
    415: "The body is not application/json.",
    503: "The broker does not serve clients yet, or does not any more.",
}
"""The errors that each request may get."""

ERROR: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string", "description": "A sentence for a person."}},
}
OBJECT: Final = {"type": "object"}
METRICS: Final = "/metrics"
"""It has no route, because its response is no JSON."""


def _rule() -> Json:
    fields = [field for field in dataclasses.fields(Rule) if field.init]
    properties = {field.name: {"type": _type(str(field.type))} for field in fields}
    properties |= {name: {"type": "integer", "description": COUNTED} for name in COUNTS}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "oneOf": [{"required": [name]} for name in ACTIONS],
    }


def _type(annotation: str) -> Any:
    names = [_TYPES[part.strip()] for part in annotation.split("|") if part.strip() != "None"]
    return names[0] if len(names) == 1 else names


RULE: Final = _rule()
SEEN_RULE: Final = {**RULE, "required": ["name", *COUNTS]}
"""A rule as it is returned."""

ADVANCE: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["by"],
    "properties": {
        "by": {"type": "string", "description": "A duration such as 7d, 90m, 1h 30m, 30s, 500ms."},
        "only": {"type": "array", "items": {"type": "string", "enum": list(PARTS)}},
    },
}


def document_of(routes: Iterable[Route]) -> Json:
    """Return the description of some routes, and of the metrics."""
    paths: Json = {METRICS: {"get": _metrics()}}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "pybroker", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}, "user": {"type": "http", "scheme": "basic"}},
        },
        "security": [{}, {"token": []}, {"user": []}],
    }


def _operation(route: Route) -> Json:
    names = [part.strip("{}") for part in route.path.split("/") if part.startswith("{")]
    operation: Json = {
        "operationId": route.verb.__name__.strip("_"),
        "summary": route.summary,
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names),
            *(
                {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
                for name, text in route.query.items()
            ),
        ],
        "responses": {
            str(route.status): {
                "description": HTTPStatus(route.status).phrase,
                "content": {"application/json": {"schema": route.returns}},
            },
            **_errors({**COMMON, **route.errors}),
        },
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": route.body}}}
    return operation


def _metrics() -> Json:
    page = {"description": HTTPStatus.OK.phrase, "content": {"text/plain": {"schema": {"type": "string"}}}}
    return {
        "operationId": "show_metrics",
        "summary": "The metrics, in the text format of Prometheus.",
        "parameters": [],
        "responses": {"200": page, **_errors(COMMON)},
    }


def _errors(texts: Mapping[int, str]) -> Json:
    return {str(status): _error(text) for status, text in sorted(texts.items())}


def _error(text: str) -> Json:
    return {"description": text, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
