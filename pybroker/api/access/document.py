"""The table as Markdown: the list of docs/security.md of what each API needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.access.table import TABLE
from pybroker.api.registry import APIS
from pybroker.security.acl.binding import CLUSTER_NAME, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.api.access.need import Need

_RESOURCES = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: "cluster",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
    ResourceType.DELEGATION_TOKEN: "delegation token",
    ResourceType.USER: "user",
}


def rows() -> str:
    """Return the rows of the list, one for each permission."""
    return "\n".join(_rows())


def _rows() -> Iterator[str]:
    for key, access in sorted(TABLE.items()):
        if key not in APIS:
            continue
        name = APIS[key].name
        if not access.needs:
            yield f"| {name} | | | | |"
        for need in access.needs:
            permission = _permission(need)
            if need.instead is not None:
                permission += f", or {_permission(need.instead)}"
            yield f"| {name} | {permission} | {_asked_for(need)} | {need.when} | {_otherwise(need)} |".replace("|  |", "| |")


def _permission(need: Need) -> str:
    kind = "any topic" if need.name == "any" else _RESOURCES[need.resource_type]
    return f"{need.operation.name} on the {kind}".replace("on the any", "on any")


def _asked_for(need: Need) -> str:
    if need.of:
        return f"each of `{need.of}`"
    return "the request" if need.name == CLUSTER_NAME or not need.hides else "each in the response"


def _otherwise(need: Need) -> str:
    return "left out" if need.hides else need.error.name
