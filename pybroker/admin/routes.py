"""The list of what can be requested: dispatch and the OpenAPI document are made from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.admin.calls import BAD_REQUEST, NOT_FOUND, AdminError, parts_of
from pybroker.admin.document import OBJECT, document_of
from pybroker.admin.route import Route
from pybroker.admin.verbs import clock, faults, groups, records, state, topics, transactions

if TYPE_CHECKING:
    from pybroker.admin.calls import Call
    from pybroker.admin.subject import Subject

NOT_ALLOWED: Final = 405
DOCUMENT: Final = "/v1/openapi.json"


async def _describe(_subject: Subject, _call: Call) -> dict[str, Any]:
    return document_of(ROUTES)


ROUTES: Final = (
    *state.ROUTES,
    *topics.ROUTES,
    *records.ROUTES,
    *groups.ROUTES,
    *transactions.ROUTES,
    *faults.ROUTES,
    *clock.ROUTES,
    Route("GET", DOCUMENT, _describe, "This description.", OBJECT),
)


def route_of(method: str, path: str) -> tuple[Route, dict[str, str], dict[str, str]]:
    """Return the route of a request, the open parts of its path by name, and its parameters. Raises AdminError."""
    parts, query = parts_of(path)
    found = [(route, names) for route in ROUTES if (names := _names(route, parts)) is not None]
    if not found:
        raise AdminError(NOT_FOUND, f"There is no {path.partition('?')[0]}; {DOCUMENT} lists what there is")
    for route, names in found:
        if route.method == ("GET" if method == "HEAD" else method):
            _check_query(route, query)
            return route, names, query
    allowed = ", ".join(route.method for route, _ in found)
    raise AdminError(NOT_ALLOWED, f"The method must be one of {allowed}, not {method}", (("Allow", allowed),))


def _check_query(route: Route, query: dict[str, str]) -> None:
    if unknown := sorted(query.keys() - route.query.keys()):
        known = f"but {', '.join(route.query)}" if route.query else "and takes none"
        raise AdminError(BAD_REQUEST, f"{route.method} {route.path} has no parameter {', '.join(unknown)}, {known}")


def _names(route: Route, parts: list[str]) -> dict[str, str] | None:
    template = route.path.split("/")[1:]
    if len(template) != len(parts):
        return None
    names = {}
    for wanted, part in zip(template, parts, strict=True):
        if wanted.startswith("{") and part:
            names[wanted.strip("{}")] = part
        elif wanted != part:
            return None
    return names
