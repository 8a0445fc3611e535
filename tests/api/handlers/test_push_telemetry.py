"""PushTelemetry refuses what the broker did not ask for."""

from __future__ import annotations

from pathlib import Path

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from pybroker.protocol.messages.push_telemetry import PushTelemetryRequest
from tests.api.administration import started


async def test_telemetry_that_is_pushed_has_no_subscription(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    known = await whole.ask(GetTelemetrySubscriptionsRequest(), 0)
    pushed = await whole.ask(PushTelemetryRequest(client_instance_id=known.client_instance_id), 0)
    assert pushed.error_code == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert (await whole.ask(PushTelemetryRequest(), 0)).error_code == ErrorCode.INVALID_REQUEST
