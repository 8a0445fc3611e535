"""ListConfigResources names the resources that have settings, by type."""

from __future__ import annotations

from pathlib import Path

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from testing.scenes.api.whole import Whole
from tests.api.configs import BROKER, GROUP, LOGGER, METRICS, SET, TOPIC, change


async def test_resources_with_settings_are_listed(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t")
    assert await change(whole, GROUP, "g/1", ("consumer.session.timeout.ms", SET, "50000")) == 0
    assert await change(whole, METRICS, "m", ("interval.ms", SET, "1000")) == 0

    async def listed(version: int, *types: int) -> list[tuple[str, int]]:
        request = ListConfigResourcesRequest() if version == 0 else ListConfigResourcesRequest(resource_types=list(types))
        response = await whole.ask(request, version)
        assert response.error_code == 0
        return [(one.resource_name, one.resource_type) for one in response.config_resources]

    assert await listed(0) == [("m", METRICS)]
    assert await listed(1) == [("t", TOPIC), ("1", BROKER), ("1", LOGGER), ("m", METRICS), ("g/1", GROUP)]
    assert await listed(1, GROUP, GROUP) == [("g/1", GROUP)]
    refused = await whole.ask(ListConfigResourcesRequest(resource_types=[1]), 1)
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
