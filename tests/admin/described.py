"""Whether a response of the API is as its OpenAPI document describes it."""

from __future__ import annotations

from typing import Any, Final

from jsonschema import Draft202012Validator

ERROR: Final = {"$ref": "#/components/schemas/Error"}
BUG: Final = 500


class Described:
    """The responses that an OpenAPI document describes."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._validators: dict[tuple[str, str, int], Draft202012Validator] = {}

    def check(self, method: str, path: str, status: int, body: object) -> None:
        """Raise ValidationError for a body that is not as described, and KeyError for a status that is not described."""
        self._validator(method, path, status).validate(body)

    def _validator(self, method: str, path: str, status: int) -> Draft202012Validator:
        template = self._template(path.partition("?")[0].split("/"))
        key = (method, template or "", status)
        if key not in self._validators:
            schema: dict[str, Any] = ERROR
            if template is not None and status != BUG and method.lower() in self._document["paths"][template]:
                responses = self._document["paths"][template][method.lower()]["responses"]
                schema = responses[str(status)]["content"]["application/json"]["schema"]
            Draft202012Validator.check_schema(schema)
            self._validators[key] = Draft202012Validator({"components": self._document["components"], **schema})
        return self._validators[key]

    def _template(self, parts: list[str]) -> str | None:
        """Return the path of the document that has these parts."""
        for template in self._document["paths"]:
            wanted = template.split("/")
            if len(wanted) == len(parts) and all(
                one.startswith("{") or one == part for one, part in zip(wanted, parts, strict=True)
            ):
                return str(template)
        return None
