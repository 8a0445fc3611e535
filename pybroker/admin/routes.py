"""The list of what can be requested: dispatch and the OpenAPI document are made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.admin import verbs
from pybroker.admin.calls import BAD_REQUEST, NOT_FOUND, AdminError, parts_of
from pybroker.admin.document import ADVANCE, RULE, document_of

if TYPE_CHECKING:
    from pybroker.admin.calls import Call, Json
    from pybroker.admin.subject import Subject

NOT_ALLOWED: Final = 405
CREATED: Final = 201
DOCUMENT: Final = "/v1/openapi.json"

Verb = Callable[["Subject", "Call"], Awaitable["Json"]]


class Route(NamedTuple):
    """A method on a path.

    Attributes:
        path: may have a part in braces, which stands for any text.
        body: the schema of the JSON object that must be sent; None if none is.
        query: the parameters behind the path, each with what it is.
        errors: the statuses of errors of its own, each with what it means.
    """

    method: str
    path: str
    verb: Verb
    summary: str
    body: Json | None = None
    query: dict[str, str] = {}  # noqa: RUF012  never changed
    errors: dict[int, str] = {}  # noqa: RUF012
    status: int = 200


async def _describe(_subject: Subject, _call: Call) -> dict[str, Any]:
    return document_of(ROUTES)


_NO_RULE: Final = {404: "No rule has this name."}

ROUTES: Final = (
    Route("GET", "/v1/faults", verbs.list_faults, "The rules by which requests go wrong, with their counts."),
    Route(
        "POST",
        "/v1/faults",
        verbs.add_fault,
        "Add a rule.",
        body=RULE,
        errors={400: "The rule cannot be.", 409: "Another rule has this name."},
        status=CREATED,
    ),
    Route("DELETE", "/v1/faults", verbs.remove_faults, "Remove all rules, and return them."),
    Route("GET", "/v1/faults/{name}", verbs.show_fault, "A rule with its counts.", errors=_NO_RULE),
    Route("DELETE", "/v1/faults/{name}", verbs.remove_fault, "Remove a rule, and return it.", errors=_NO_RULE),
    Route("GET", "/v1/clock", verbs.show_clock, "The broker's time, and how much more has passed than for the machine."),
    Route(
        "POST",
        "/v1/clock/advance",
        verbs.advance_clock,
        "Let time pass; the response comes when everything is done that was due meanwhile.",
        body=ADVANCE,
        errors={400: "The duration or a part cannot be.", 409: "The broker has the clock of the machine."},
    ),
    Route(
        "POST",
        "/v1/reset",
        verbs.reset,
        "Remove all rules, topics, groups, transactions and dynamic settings, and forget the requests.",
        errors={409: "The broker is one of several, or its disk has failed."},
    ),
    Route(
        "GET",
        "/v1/requests",
        verbs.list_requests,
        "The last requests of clients that fit, oldest first, and how many fit.",
        query={
            "limit": f"At most this many, {verbs.REQUESTS} by default, {verbs.REQUESTS_MAX} at most.",
            "api": "Requests of this API.",
            "client_id": "Requests of clients with this id.",
            "topic": "Requests that name this topic.",
            "group": "Requests that name this group.",
            "transactional_id": "Requests that name this transactional id.",
        },
        errors={400: "The limit is no number.", 409: "The broker keeps no requests."},
    ),
    Route("GET", "/v1/topics", verbs.list_topics, "All topics with their partitions."),
    Route("GET", "/v1/groups", verbs.list_groups, "All groups with members, offsets and lag."),
    Route("GET", "/v1/clients", verbs.list_clients, "What each client has used up to now, connected or not."),
    Route("GET", "/v1/transactions", verbs.list_transactions, "All transactional ids with their last transactions."),
    Route("GET", "/livez", verbs.show_life, "Whether the broker's event loop runs."),
    Route("GET", "/readyz", verbs.show_readiness, "Whether the broker is ready for clients."),
    Route("GET", DOCUMENT, _describe, "This description."),
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
