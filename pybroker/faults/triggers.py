"""Lets things happen in the state of a broker when a request comes, before the broker handles the request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pybroker.faults.groups import expired, rebalanced
from pybroker.model import GroupId, MemberId
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.faults.parts import Parts
    from pybroker.faults.rule import Rule

RETRY_S: Final = 0.005
ENDING: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
"""The errors with which another producer tries again, because an open transaction is being aborted."""


async def trigger(rule: Rule, request: Any, parts: Parts, transactional_ids: tuple[str, ...]) -> bool:
    """Let that happen which the rule asks for. Returns whether this broker knows what the request names."""
    if rule.fence:
        return any([await _fence(parts, one, rule.producer_id) for one in transactional_ids])
    if rule.end_session:
        control = parts.membership.control
        return control is not None and await control.end_session()
    group_id = GroupId(request.group_id)
    operation = rebalanced(group_id) if rule.rebalance else expired(group_id, MemberId(request.member_id))
    return await _outcome(partial(parts.services.groups.write, group_id, operation)) is True


async def _fence(parts: Parts, transactional_id: str, producer_id: int | None) -> bool:
    """Give a transactional id to another producer, whose timeout is the same, as InitProducerId does."""
    coordinator = parts.services.transactions
    if coordinator.leader_of(transactional_id) != parts.services.controller.broker_id:
        return False
    known = await _outcome(partial(coordinator.describe, transactional_id))
    if isinstance(known, ErrorCode) or producer_id not in (None, known.producer_id):
        return False
    while True:
        given = await _outcome(partial(coordinator.init_producer_id, transactional_id, known.timeout_ms, None))
        if given not in ENDING:
            return not isinstance(given, ErrorCode)
        await asyncio.sleep(RETRY_S)


async def _outcome(ask: Callable[[Callable[[Any], None]], None]) -> Any:
    """Return what a coordinator passes to its callback."""
    found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    ask(lambda outcome: None if found.done() else found.set_result(outcome))
    return await found
