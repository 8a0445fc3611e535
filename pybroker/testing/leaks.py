"""The transactions, members and connections that a test has left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.admin.groups import groups, transactions
from pybroker.network.limits import host_and_port

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybroker.admin.steps import Steps
    from pybroker.faults.trail import SeenRequest
    from pybroker.network.context import ConnectionContext


def leaks() -> Steps[list[str]]:
    """Return a line for each open transaction, and for each member of a group."""
    lines = [f"the transaction {name} is open" for name, one in (yield from transactions()).items() if one.is_open]
    for name, group in (yield from groups()).items():
        lines += [f"the group {name} has the member {member.member_id} ({member.client_id})" for member in group.members]
    return lines


def open_connections(connections: Iterable[ConnectionContext], requests: Iterable[SeenRequest]) -> list[str]:
    """Return a line for each open connection, with the client id of its last request."""
    client_ids = {one.connection: one.client_id for one in requests}
    return [
        f"the connection {one.connection_id} from {host_and_port(one.peer_host, one.peer_port)}"
        f" ({client_ids.get(one.connection_id, 'no request')}) is open"
        for one in connections
    ]
