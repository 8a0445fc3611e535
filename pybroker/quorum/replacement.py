"""A controller that has lost its data joins the others again, as a new member: etcd refuses one that has forgotten its votes.

The others must have a majority, or etcd does not change its members. A controller that has never run is no lost one: its cluster
begins, or it was added before and has not started yet.

Source: etcd's runtime reconfiguration ("remove the member, add it again, start it with initial-cluster-state existing").
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from pybroker.metadata.store.etcd.address import parse
from pybroker.metadata.store.etcd.gateway import Gateway, LostError, Message, NotSentError, RefusedError

if TYPE_CHECKING:
    from pybroker.quorum.members import Quorum, Voter

logger = logging.getLogger(__name__)

LIST: Final = "/v3/cluster/member/list"
REMOVE: Final = "/v3/cluster/member/remove"
ADD: Final = "/v3/cluster/member/add"
ADD_S: Final = 1.0
LOOK_S: Final = 0.05
LOOKS: Final = 200


async def is_joining(quorum: Quorum, own: Voter) -> bool:
    """Return whether a controller without data must join a cluster that exists; then the others expect it as a new member."""
    others = [voter.client_url for voter in quorum.voters if voter != own]
    try:
        if not others:
            return False
        member = await _known(",".join(others), own)
        if member is not None and not member.get("clientURLs"):  # it has never run: a member that was added has no name before
            return not member.get("name")
        if member is not None:  # otherwise it was removed, by this or by a person
            logger.warning("Controller %s has no data here: it joins the others as a new member", own.name)
            await _called(",".join(others), REMOVE, {"ID": member["ID"]})
    except (NotSentError, LostError, RefusedError) as error:
        logger.debug("Controller %s has no data, and begins with the others: %s", own.name, error)
        return False
    member_id = await _added(",".join(others), own)
    for url in others:
        await _wait_for(url, own, member_id)
    return True


async def _added(urls: str, own: Voter) -> str:
    """Add the new member, and return its id. Members that have been connected for less than five seconds refuse it at first."""
    while True:
        try:
            added = await _called(urls, ADD, {"peerURLs": [own.peer_url]})
        except (NotSentError, LostError, RefusedError) as error:
            line = "The other controllers have not taken controller %s as a new member yet, which is tried every %g s: %s"
            logger.info(line, own.name, ADD_S, error)
            await asyncio.sleep(ADD_S)
        else:
            return str(added["member"]["ID"])


async def _wait_for(url: str, own: Voter, member_id: str) -> None:
    """Wait until one of the others has followed the change: a new member takes its id from any of them."""
    for _ in range(LOOKS):
        try:
            member = await _known(url, own)
        except (NotSentError, LostError, RefusedError):
            return  # it is away, so the new member asks another one
        if member is not None and member["ID"] == member_id:
            return
        await asyncio.sleep(LOOK_S)


async def _known(urls: str, own: Voter) -> Message | None:
    """Return the member at this controller's address, as the others know it."""
    found = await _called(urls, LIST, {})
    return next((member for member in found.get("members", ()) if own.peer_url in member.get("peerURLs", ())), None)


async def _called(urls: str, path: str, message: Message) -> Message:
    """Call one of the members, and return its response. Raises as `Gateway.call`."""
    gateway = Gateway(parse(urls).endpoints)
    try:
        return await gateway.call(path, message)
    finally:
        gateway.close()
