"""Does what requests to the API ask for. Each verb returns what becomes JSON, and runs in the thread of the listener."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pybroker.admin.calls import BAD_REQUEST, CONFLICT, NOT_FOUND, UNAVAILABLE, AdminError, Call, Json
from pybroker.faults.rule import RuleError, rule_of
from pybroker.http_server import NOT_ALIVE, is_alive

if TYPE_CHECKING:
    from pybroker.admin.subject import Subject


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
