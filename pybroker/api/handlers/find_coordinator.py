"""FindCoordinator (key 10), v0-6: which broker coordinates a group or a transactional id.

Behaviour
    The first request creates `__consumer_offsets` or `__transaction_state` and waits for it; Kafka responds with
    COORDINATOR_NOT_AVAILABLE and lets the client ask again. The address is that of Metadata. While the partition has no leader:
    COORDINATOR_NOT_AVAILABLE. Share partitions and unknown types: INVALID_REQUEST.
Versions
    v0 groups only. v1 type, error text. v3 flexible. v4 several keys (KIP-699). v6 share partitions (KIP-932).
Not done
    Share groups.
Source: KafkaApis.handleFindCoordinatorRequest, getCoordinator.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from pybroker.api.nodes import reach
from pybroker.api.pieces import Pieces
from pybroker.model import GroupId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services

GROUP: Final = 0
TRANSACTION: Final = 1

_SEVERAL_KEYS_VERSION: Final = 4
_NO_NODE: Final = -1

PIECES: Final = Pieces(("coordinator_keys", "coordinators"))


def handle(
    broker: Services, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Respond at once, except for the very first request."""
    if request.key_type == GROUP and broker.groups.topic.is_missing:
        return _create_first(broker, context, request)
    if request.key_type == TRANSACTION and broker.transactions.topic.is_missing:
        return _create_first(broker, context, request)
    return _respond(broker, context, request)


async def _create_first(broker: Services, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    coordinator = broker.groups if request.key_type == GROUP else broker.transactions
    await coordinator.topic.create()  # if that fails there is no leader, and the response shows it
    return _respond(broker, context, request)


def _respond(broker: Services, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if context.api_version >= _SEVERAL_KEYS_VERSION:
        return FindCoordinatorResponse(
            coordinators=[_coordinator(broker, context, request.key_type, key) for key in request.coordinator_keys]
        )
    found = _coordinator(broker, context, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _coordinator(broker: Services, context: RequestContext, key_type: int, key: str) -> Coordinator:
    if key_type not in {GROUP, TRANSACTION}:
        return _refused(key, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.message)
    leader = broker.groups.leader_of(GroupId(key)) if key_type == GROUP else broker.transactions.leader_of(key)
    node = next((node for node in reach(broker, context).nodes if node.broker_id == leader), None)
    if node is None:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE.message)
    return Coordinator(key=key, node_id=node.broker_id, host=node.host, port=node.port, error_code=ErrorCode.NONE)


def _refused(key: str, code: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=_NO_NODE, host="", port=_NO_NODE, error_code=code, error_message=text)
