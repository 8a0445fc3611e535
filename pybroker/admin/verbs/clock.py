"""Shows the broker's time, and lets it pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.admin import returned
from pybroker.admin.calls import BAD_REQUEST, CONFLICT, AdminError
from pybroker.admin.document import ADVANCE
from pybroker.admin.route import Route
from pybroker.security.acl.binding import AclOperation
from pybroker.times.clock import RealClockError

if TYPE_CHECKING:
    from pybroker.admin.calls import Call, Json
    from pybroker.admin.subject import Subject

CLOCK_FIELDS: Final = frozenset({"by", "only"})


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


ROUTES: Final = (
    Route(
        "GET", "/v1/clock", show_clock, "The broker's time, and how much more has passed than for the machine.", returned.CLOCK
    ),
    Route(
        "POST",
        "/v1/clock/advance",
        advance_clock,
        "Let time pass; the response comes when everything is done that was due meanwhile.",
        returned.CLOCK,
        body=ADVANCE,
        needs=AclOperation.ALTER,
        errors={400: "The duration or a part cannot be.", 409: "The broker has the clock of the machine."},
    ),
)
