"""PushTelemetry (key 72), v0: metrics that a client pushes without a subscription.

Behaviour
    See GetTelemetrySubscriptions: no client has a subscription, so every push is UNKNOWN_SUBSCRIPTION_ID, after which clients ask
    for their subscriptions again. INVALID_REQUEST without an instance id.
Versions
    Only one.
Not done
    Receiving metrics.
Source: ClientMetricsManager.processPushTelemetryRequest; KIP-714.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.model import ZERO_TOPIC_ID
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services


def handle(
    broker: Services,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    request: PushTelemetryRequest,
) -> PushTelemetryResponse:
    """Refuse the metrics."""
    if request.client_instance_id == ZERO_TOPIC_ID:
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
    return PushTelemetryResponse(error_code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
