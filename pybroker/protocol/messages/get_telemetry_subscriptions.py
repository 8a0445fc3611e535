"""GetTelemetrySubscriptions (key 71): the metrics that a client is to send (KIP-714)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, field
from pybroker.protocol.wire import Bool, Int8, Int16, Int32, Uuid


class GetTelemetrySubscriptionsRequest(Request, api_key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions="0", flexible="0+"):
    """A request from one instance of a client."""

    client_instance_id: Uuid = field()  # zero: the client has none yet


class GetTelemetrySubscriptionsResponse(Response, api_key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions="0", flexible="0+"):
    """The metrics to send, their encoding and the interval."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    client_instance_id: Uuid = field()  # a new id if the client had none, otherwise zero
    subscription_id: Int32 = field()
    accepted_compression_types: list[Int8] = field()  # 1: gzip, 2: snappy, 3: lz4, 4: zstd
    push_interval_ms: Int32 = field()
    telemetry_max_bytes: Int32 = field()
    delta_temporality: Bool = field()  # counters as differences
    requested_metrics: list[str] = field()  # prefixes of names; no element: none, one empty element: all
