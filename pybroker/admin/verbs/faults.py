"""Rules by which requests go wrong, the last requests, and the reset between two tests."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from pybroker.admin import returned, topics
from pybroker.admin.calls import BAD_REQUEST, CONFLICT, NOT_FOUND, AdminError
from pybroker.admin.document import RULE, SEEN_RULE
from pybroker.admin.route import CREATED, Route
from pybroker.admin.shapes import of_request
from pybroker.faults.rule import RuleError, rule_of
from pybroker.security.acl.binding import AclOperation

if TYPE_CHECKING:
    from pybroker.admin.calls import Call, Json
    from pybroker.admin.subject import Subject
    from pybroker.faults.trail import SeenRequest

DESCRIBE, ALTER = AclOperation.DESCRIBE, AclOperation.ALTER
REQUESTS: Final = 1_000
REQUESTS_MAX: Final = 10_000


async def list_faults(subject: Subject, _call: Call) -> Json:
    """Return all rules, in their order."""
    return {"faults": [rule.as_data() for rule in subject.parts.faults.rules.values()]}


async def add_fault(subject: Subject, call: Call) -> Json:
    """Add a rule."""
    try:
        rule = rule_of(call.body)
    except RuleError as error:
        raise AdminError(BAD_REQUEST, str(error)) from error
    try:
        return subject.parts.faults.put(rule).as_data()
    except RuleError as error:
        raise AdminError(CONFLICT, str(error)) from error


async def remove_faults(subject: Subject, call: Call) -> Json:
    """Remove all rules, and return them."""
    removed = await list_faults(subject, call)
    subject.parts.faults.clear()
    return removed


async def show_fault(subject: Subject, call: Call) -> Json:
    """Return a rule."""
    return _fault(subject, call)


async def remove_fault(subject: Subject, call: Call) -> Json:
    """Remove a rule, and return it."""
    removed = _fault(subject, call)
    subject.parts.faults.remove(call.names["name"])
    return removed


async def reset(subject: Subject, _call: Call) -> Json:
    """Remove all rules of faults, topics, groups, transactions and dynamic settings, and forget the requests."""
    parts = subject.parts
    if not parts.is_alone:
        raise AdminError(CONFLICT, "A broker of a cluster has no reset: each test has a cluster of its own")
    parts.faults.clear()
    if parts.has_failed_directory():
        raise AdminError(CONFLICT, "A log directory has failed, and works again after the next start of the broker")
    subject.loop.call_soon_threadsafe(parts.faults.release)
    await subject.carry_out(topics.reset())
    subject.loop.call_soon_threadsafe(parts.clients.clear)
    if parts.trail is not None:
        parts.trail.clear()
    return {"status": "ok"}


async def list_requests(subject: Subject, call: Call) -> Json:
    """Return the last requests of clients that fit, oldest first, and how many fit."""
    trail = subject.parts.trail
    if trail is None:
        raise AdminError(CONFLICT, "pybroker.admin.requests=0: the broker keeps no requests")
    limit = call.number("limit", default=REQUESTS, most=REQUESTS_MAX)
    found = [one for one in trail.all() if _fits(one, call.query)]
    return {"count": len(found), "requests": [of_request(one) for one in found[len(found) - min(limit, len(found)) :]]}


def _fits(request: SeenRequest, query: dict[str, str]) -> bool:
    """Return whether a request has what the parameters name, in which names may have wildcards."""
    named = {
        "api": (request.api,),
        "client_id": (request.client_id,),
        "topic": request.topics,
        "group": request.groups,
        "transactional_id": request.transactional_ids,
    }
    return all(any(fnmatchcase(name, query[key]) for name in names) for key, names in named.items() if key in query)


def _fault(subject: Subject, call: Call) -> dict[str, Any]:
    name = call.names["name"]
    rule = subject.parts.faults.rules.get(name)
    if rule is None:
        raise AdminError(NOT_FOUND, f"No rule has the name {name}")
    return rule.as_data()


RULES: Final = returned.exactly(faults=returned.list_of(SEEN_RULE))
_NO_RULE: Final = {404: "No rule has this name."}

ROUTES: Final = (
    Route("GET", "/v1/faults", list_faults, "The rules by which requests go wrong, with their counts.", RULES, needs=DESCRIBE),
    Route(
        "POST",
        "/v1/faults",
        add_fault,
        "Add a rule.",
        SEEN_RULE,
        body=RULE,
        needs=ALTER,
        errors={400: "The rule cannot be.", 409: "Another rule has this name."},
        status=CREATED,
    ),
    Route("DELETE", "/v1/faults", remove_faults, "Remove all rules, and return them.", RULES, needs=ALTER),
    Route("GET", "/v1/faults/{name}", show_fault, "A rule with its counts.", SEEN_RULE, errors=_NO_RULE, needs=DESCRIBE),
    Route("DELETE", "/v1/faults/{name}", remove_fault, "Remove a rule, and return it.", SEEN_RULE, errors=_NO_RULE, needs=ALTER),
    Route(
        "POST",
        "/v1/reset",
        reset,
        "Remove all rules, topics, groups, transactions and dynamic settings, and forget the requests.",
        returned.STATUS,
        needs=ALTER,
        errors={409: "The broker is one of several, or its disk has failed."},
    ),
    Route(
        "GET",
        "/v1/requests",
        list_requests,
        "The last requests of clients that fit, oldest first, and how many fit.",
        returned.REQUESTS,
        query={
            "limit": f"At most this many, {REQUESTS} by default, {REQUESTS_MAX} at most.",
            "api": "Requests of this API.",
            "client_id": "Requests of clients with this id.",
            "topic": "Requests that name this topic.",
            "group": "Requests that name this group.",
            "transactional_id": "Requests that name this transactional id.",
        },
        needs=ALTER,
        errors={400: "The limit is no number.", 409: "The broker keeps no requests."},
    ),
)
