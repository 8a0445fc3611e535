"""GetTelemetrySubscriptions gives a client its id and asks for no metrics."""

from __future__ import annotations

from pathlib import Path

from pybroker.model import ZERO_TOPIC_ID
from pybroker.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from tests.api.administration import started


async def test_no_telemetry_is_wanted(tmp_path: Path) -> None:
    whole = await started(tmp_path)
    response = await whole.ask(GetTelemetrySubscriptionsRequest(), 0)
    assert (response.error_code, response.requested_metrics) == (0, [])
    assert response.client_instance_id != ZERO_TOPIC_ID
    again = await whole.ask(GetTelemetrySubscriptionsRequest(client_instance_id=response.client_instance_id), 0)
    assert again.client_instance_id == response.client_instance_id
