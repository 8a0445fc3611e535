"""The transactions, members and connections that a test has left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.admin.groups import groups, transactions
from pybroker.network.limits import host_and_port

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pybroker.admin.steps import Steps
    from pybroker.network.context import ConnectionContext


def leaks() -> Steps[list[str]]:
    """Return a line for each open transaction, and for each member of a group."""
    lines = [f"the transaction {name} is open" for name, one in (yield from transactions()).items() if one.is_open]
    for name, group in (yield from groups()).items():
        lines += [f"the group {name} has the member {member.member_id} ({member.client_id})" for member in group.members]
    return lines


def open_connections(connections: Iterable[ConnectionContext], shared: Collection[Sequence[str]]) -> list[str]:
    """Return a line for each open connection, with its client, but for those of clients that are shared."""
    lines = []
    for one in connections:
        client = (one.client_id, one.client_software_name, one.client_software_version)
        if client not in shared:
            name = "no request" if one.client_id is None else " ".join(filter(None, client))
            peer = host_and_port(one.peer_host, one.peer_port)
            lines.append(f"the connection {one.connection_id} from {peer} ({name}) is open")
    return lines
