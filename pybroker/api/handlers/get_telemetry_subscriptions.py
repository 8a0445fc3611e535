"""GetTelemetrySubscriptions (key 71), v0: which metrics the broker wants from a client. None.

Behaviour
    A client that has no id yet gets one. It learns that no metrics are wanted, and asks again after five minutes, Kafka's
    default; it never pushes. Settings of client metrics made by AlterConfigs are kept and not used.
    Kafka without a receiver of metrics does not list this API at all. Both are the same to clients: they call this API once it is
    listed (Java, librdkafka) and are quiet when no metrics are wanted.
Versions
    Only one.
Not done
    Subscriptions: pybroker has no receiver for the metrics.
Source: ClientMetricsManager.processGetTelemetrySubscriptionRequest; KIP-714.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.metadata.names import random_topic_id
from pybroker.model import ZERO_TOPIC_ID
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services

PUSH_INTERVAL_MS: Final = 300_000
"""Not longer: librdkafka counts it as microseconds in 32 bits, and from 2,147 s on it asks again without a pause."""
TELEMETRY_BYTES_MAX: Final = 1_048_576
NOTHING_WANTED_ID: Final = 0
_CODECS: Final = (4, 3, 1, 2)


def handle(
    broker: Services,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    request: GetTelemetrySubscriptionsRequest,
) -> GetTelemetrySubscriptionsResponse:
    """Respond that no metrics are wanted."""
    instance_id = request.client_instance_id
    return GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.NONE,
        client_instance_id=random_topic_id() if instance_id == ZERO_TOPIC_ID else instance_id,
        subscription_id=NOTHING_WANTED_ID,
        accepted_compression_types=list(_CODECS),
        push_interval_ms=PUSH_INTERVAL_MS,
        telemetry_max_bytes=TELEMETRY_BYTES_MAX,
        delta_temporality=True,
        requested_metrics=[],
    )
