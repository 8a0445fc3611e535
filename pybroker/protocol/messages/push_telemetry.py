"""PushTelemetry (key 72): metrics of a client (KIP-714)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, field
from pybroker.protocol.wire import Bool, Int8, Int16, Int32, Uuid


class PushTelemetryRequest(Request, api_key=ApiKey.PUSH_TELEMETRY, versions="0", flexible="0+"):
    """A request from one instance of a client."""

    client_instance_id: Uuid = field()
    subscription_id: Int32 = field()
    terminating: Bool = field()  # the last request: the client terminates
    compression_type: Int8 = field()  # 0: none, 1: gzip, 2: snappy, 3: lz4, 4: zstd
    metrics: bytes = field()  # OpenTelemetry's MetricsData v1, compressed


class PushTelemetryResponse(Response, api_key=ApiKey.PUSH_TELEMETRY, versions="0", flexible="0+"):
    """Whether the broker took the metrics."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
