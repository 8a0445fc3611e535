"""The OpenAPI document has each route, and nothing else."""

from __future__ import annotations

import dataclasses
import re

import pytest
from jsonschema import ValidationError

from pybroker.admin.document import COMMON, METRICS, OBJECT, document_of
from pybroker.admin.routes import ROUTES, route_of
from pybroker.faults.rule import Rule
from tests.admin.described import Described


def test_each_route_is_in_the_document_and_the_other_way_round() -> None:
    document = document_of(ROUTES)
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    routes = {(route.method, route.path) for route in ROUTES}
    assert described == {*routes, ("GET", METRICS)}
    for method, path in routes:
        found, names, _ = route_of(method, re.sub(r"\{\w+\}", "one", path))
        assert (found.method, found.path) == (method, path)
        operation = document["paths"][path][method.lower()]
        assert operation["summary"].endswith(".")
        assert [one["name"] for one in operation["parameters"] if one["in"] == "path"] == [*names]
        assert ("requestBody" in operation) == (found.body is not None)
        assert {int(status) for status in operation["responses"]} >= {found.status, *found.errors, *COMMON}


def test_operations_have_names_of_their_own() -> None:
    names = [one["operationId"] for methods in document_of(ROUTES)["paths"].values() for one in methods.values()]
    assert len({*names}) == len(names)


def test_a_rule_in_the_document_has_the_fields_of_a_rule() -> None:
    body = document_of(ROUTES)["paths"]["/v1/faults"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert [*body["properties"]] == [*(field.name for field in dataclasses.fields(Rule) if field.init), "seen", "count"]
    assert body["properties"]["version"] == {"type": ["integer", "array"]}
    assert body["properties"]["times"] == {"type": "integer"}


def test_each_response_is_described_with_all_its_fields() -> None:
    described = Described(document_of(ROUTES))
    described.check("GET", "/v1/groups", 200, {"groups": []})
    wrong: tuple[object, ...] = ({}, {"groups": None}, {"groups": [{}]}, {"groups": [], "more": 1})
    for body in wrong:
        with pytest.raises(ValidationError):
            described.check("GET", "/v1/groups", 200, body)
    with pytest.raises(KeyError):
        described.check("GET", "/v1/groups", 299, {"groups": []})
    open_ended = [route.path for route in ROUTES if route.returns == OBJECT]
    assert open_ended == ["/v1/openapi.json"]
