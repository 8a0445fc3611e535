"""Does what requests to the API ask for. Each verb returns what becomes JSON, and runs in the thread of the listener."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from pybroker.admin import groups, topics
from pybroker.admin.calls import BAD_REQUEST, CONFLICT, NOT_FOUND, UNAVAILABLE, AdminError, Call, Json
from pybroker.admin.shapes import of_group, of_request, of_topic, of_transaction
from pybroker.faults.rule import RuleError, rule_of
from pybroker.http_server import NOT_ALIVE, is_alive
from pybroker.times.clock import RealClockError

if TYPE_CHECKING:
    from pybroker.admin.subject import Subject
    from pybroker.faults.trail import SeenRequest

REQUESTS: Final = 1_000
REQUESTS_MAX: Final = 10_000
CLOCK_FIELDS: Final = frozenset({"by", "only"})


async def show_life(subject: Subject, _call: Call) -> Json:
    """Return whether the broker's event loop runs."""
    return _state(None if await is_alive(subject.loop) else NOT_ALIVE)


async def show_readiness(subject: Subject, _call: Call) -> Json:
    """Return whether the broker is ready for clients."""
    return _state(subject.why_not_ready())


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


async def show_clock(subject: Subject, _call: Call) -> Json:
    """Return the broker's time."""
    clock = subject.parts.clock
    offsets_ms = None if clock.lanes is None else clock.lanes.offsets_ms
    return {"time_ms": clock.time_ms(), "is_virtual": offsets_ms is not None, "offsets_ms": offsets_ms or {}}


async def advance_clock(subject: Subject, call: Call) -> Json:
    """Let time pass, and return the broker's time when everything is done that was due meanwhile."""
    if unknown := call.body.keys() - CLOCK_FIELDS:
        raise AdminError(BAD_REQUEST, f"The body has no field {', '.join(sorted(unknown))}, but by and only")
    duration, only = call.body.get("by"), call.body.get("only")
    if not isinstance(duration, str):
        raise AdminError(BAD_REQUEST, "by must be a text such as 7d, 90m, 1h 30m, 30s, 500ms")
    if only is not None and not (isinstance(only, list) and all(isinstance(part, str) for part in only)):
        raise AdminError(BAD_REQUEST, "only must be a list of texts")
    try:
        await subject.in_loop(subject.parts.clock.advance(duration, only=only))
    except RealClockError as error:
        raise AdminError(CONFLICT, str(error)) from error
    except ValueError as error:
        raise AdminError(BAD_REQUEST, str(error)) from error
    return await show_clock(subject, call)


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


async def list_topics(subject: Subject, _call: Call) -> Json:
    """Return all topics with their partitions."""
    return {"topics": [of_topic(one) for one in (await subject.carry_out(topics.topics())).values()]}


async def list_groups(subject: Subject, _call: Call) -> Json:
    """Return all groups with members, offsets and lag."""
    return {"groups": [of_group(one) for one in (await subject.carry_out(groups.groups())).values()]}


async def list_clients(subject: Subject, _call: Call) -> Json:
    """Return what each client has used, the one that was seen last at the end."""
    return {"clients": [one.as_data() for one in await subject.in_loop(subject.parts.clients.seen())]}


async def list_transactions(subject: Subject, _call: Call) -> Json:
    """Return all transactional ids with what is known of their last transactions."""
    found = await subject.carry_out(groups.transactions())
    return {"transactions": [of_transaction(one) for one in found.values()]}


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


def _state(reason: str | None) -> Json:
    if reason is not None:
        raise AdminError(UNAVAILABLE, reason)
    return {"status": "ok"}
