"""A request that the API takes: what it is, and what carries it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pybroker.admin.calls import Call, Json
    from pybroker.admin.subject import Subject
    from pybroker.security.acl.binding import AclOperation

CREATED: Final = 201

Verb = Callable[["Subject", "Call"], Awaitable["Json"]]


class Route(NamedTuple):
    """A method on a path.

    Attributes:
        path: may have a part in braces, which stands for any text.
        returns: the schema of the JSON object of the response.
        body: the schema of the JSON object that must be sent; None if none is.
        query: the parameters behind the path, each with what it is.
        errors: the statuses of errors of its own, each with what it means.
        needs: what a user must be allowed to do with the cluster; None if the requests of the verb are checked themselves.
    """

    method: str
    path: str
    verb: Verb
    summary: str
    returns: Json
    body: Json | None = None
    query: dict[str, str] = {}  # noqa: RUF012  never changed
    errors: dict[int, str] = {}  # noqa: RUF012
    status: int = 200
    needs: AclOperation | None = None
