"""Asks the members of etcd beside the controllers how far each of them is, and which one leads.

Source: etcd's rpc.proto (Maintenance.Status, ResponseHeader).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.metadata.controllers import ControllerStanding
from pybroker.metadata.store.etcd.address import parse
from pybroker.metadata.store.etcd.gateway import Gateway, LostError, NotSentError, RefusedError
from pybroker.model import BrokerId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.quorum.members import Voter

STATUS: Final = "/v3/maintenance/status"
STATUS_S: Final = 1.0
_NONE: Final = "0"


class _Status(NamedTuple):
    """A member's report: its own id, the id of the leader that it follows, the term of that leader, and its last commit."""

    member_id: str
    leader_id: str
    term: int
    revision: int


async def standings(voters: Sequence[Voter]) -> list[ControllerStanding]:
    """Return how far each of the controllers is; the name of each is its number."""
    found = await asyncio.gather(*(_status(voter) for voter in voters))
    leading = max((one for one in found if one is not None and one.leader_id != _NONE), key=lambda one: one.term, default=None)
    return [
        ControllerStanding(
            node_id=BrokerId(int(voter.name)),
            host=voter.host,
            port=voter.port,
            is_leader=leading is not None and one.member_id == leading.leader_id,
            epoch=one.term,
            revision=one.revision,
        )
        if one is not None
        else ControllerStanding(BrokerId(int(voter.name)), voter.host, voter.port)
        for voter, one in zip(voters, found, strict=True)
    ]


async def _status(voter: Voter) -> _Status | None:
    """Return the report of a member; None where it does not respond."""
    gateway = Gateway(parse(voter.client_url).endpoints)
    try:
        response = await gateway.call(STATUS, {}, within_s=STATUS_S)
    except (NotSentError, LostError, RefusedError):
        return None
    finally:
        gateway.close()
    header = response["header"]
    return _Status(
        member_id=header["member_id"],
        leader_id=response.get("leader", _NONE),
        term=int(header.get("raft_term", 0)),
        revision=int(header.get("revision", 0)),
    )
