"""Shows groups, moves their offsets, and removes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.admin import group_changes, groups, returned
from pybroker.admin.body import checked, schema_of
from pybroker.admin.calls import BAD_REQUEST, NOT_FOUND, AdminError
from pybroker.admin.route import Route
from pybroker.admin.shapes import of_group, of_group_in_short
from pybroker.admin.topics import EARLIEST, LATEST
from pybroker.metrics.pages import Breaks

if TYPE_CHECKING:
    from pybroker.admin.calls import Call, Json
    from pybroker.admin.subject import Subject

NUMBER: Final = {"type": "integer", "minimum": 0}
MOVE: Final = schema_of(
    ("topic",),
    topic={"type": "string"},
    partition=NUMBER,
    to={"type": "string", "enum": ["earliest", "latest"]},
    offset=NUMBER,
    timestamp_ms=NUMBER,
    dry_run={"type": "boolean", "description": "true: only show what the offsets would become."},
)
PLACES: Final = {"earliest": EARLIEST, "latest": LATEST}


async def list_groups(subject: Subject, call: Call) -> Json:
    """Return all groups, with members, offsets and lag or in short."""
    shape = of_group_in_short if call.query.get("short") == "true" else of_group
    breaks, listed = Breaks(), []
    for one in (await subject.carry_out(groups.groups())).values():
        listed.append(shape(one))
        breaks.take()
    return {"groups": listed}


async def show_group(subject: Subject, call: Call) -> Json:
    """Return a group with members, offsets and lag."""
    found = (await subject.carry_out(groups.groups(call.names["group"]))).get(call.names["group"])
    if found is None:
        raise AdminError(NOT_FOUND, f"There is no group {call.names['group']}")
    return of_group(found)


async def move_group(subject: Subject, call: Call) -> Json:
    """Move the committed offsets of a group without members, and return the new ones."""
    body = checked(call.body, MOVE)
    given = [name for name in ("to", "offset", "timestamp_ms") if name in body]
    if len(given) != 1:
        raise AdminError(BAD_REQUEST, "the body needs exactly one of to, offset and timestamp_ms")
    to = PLACES[body["to"]] if given == ["to"] else body[given[0]]
    steps = group_changes.new_offsets(body["topic"], body.get("partition"), to=to, is_time=given == ["timestamp_ms"])
    offsets = await subject.carry_out(steps)
    if not body.get("dry_run", False):
        await subject.carry_out(group_changes.move_group(call.names["group"], body["topic"], offsets))
    return {"topic": body["topic"], "offsets": {str(index): offset for index, offset in sorted(offsets.items())}}


async def delete_group(subject: Subject, call: Call) -> Json:
    """Remove a group without members, with its offsets."""
    await subject.carry_out(group_changes.delete_group(call.names["group"]))
    return {"group_id": call.names["group"]}


_ERRORS: Final = {404: "There is no such group, or no such topic.", 409: "The group has members."}

ROUTES: Final = (
    Route(
        "GET",
        "/v1/groups",
        list_groups,
        "All groups with members, offsets and lag.",
        returned.GROUPS,
        query={"short": "true: the number of members, and the lag for each topic, in place of members and offsets."},
    ),
    Route(
        "GET",
        "/v1/groups/{group}",
        show_group,
        "A group with members, offsets and lag.",
        returned.GROUP,
        errors={404: _ERRORS[404]},
    ),
    Route(
        "POST",
        "/v1/groups/{group}/offsets",
        move_group,
        "Move the offsets of a group for a topic, or for a partition of it, and return the new ones.",
        returned.OFFSETS,
        body=MOVE,
        errors={400: "There is no place to move to, or several.", **_ERRORS},
    ),
    Route("DELETE", "/v1/groups/{group}", delete_group, "Remove a group with its offsets.", returned.GROUP_ID, errors=_ERRORS),
)
