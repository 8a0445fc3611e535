"""UnregisterBroker (key 64), v0: take a broker that is gone for good out of the cluster.

Behaviour
    The registration is deleted from the metadata store. Partitions keep the broker among their replicas, as they keep one that is
    away. A broker that comes back registers again. An id that is not registered is BROKER_ID_NOT_REGISTERED.
    A live broker is INVALID_REQUEST. Kafka would take it out, and it would register again at its next heartbeat.
Versions
    There is only one.
Not done
    Nothing.
Source: ReplicationControlManager.unregisterBroker; KIP-631.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.model import BrokerId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services


async def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: UnregisterBrokerRequest,
) -> UnregisterBrokerResponse:
    """Delete the registration, then respond."""
    await broker.controller.unregister_broker(BrokerId(request.broker_id))
    return UnregisterBrokerResponse(error_code=ErrorCode.NONE)
