"""AlterConfigs in every version: it replaces all settings of a resource."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import alter_configs
from pybroker.protocol.messages.alter_configs import AlterConfigsRequest
from testing.scenes.api.whole import Whole
from tests.api.configs import ALTER_VERSIONS, BROKER, LOGGER, TOPIC, replace


@pytest.mark.parametrize("version", ALTER_VERSIONS)
async def test_all_settings_are_replaced(tmp_path: Path, version: int) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t", retention_ms="77", segment_ms="5")
    assert await replace(whole, TOPIC, "t", version, validate_only=True, segment_bytes="100") == 0
    assert await replace(whole, TOPIC, "t", version, segment_bytes=None) == ErrorCode.INVALID_REQUEST
    assert await replace(whole, LOGGER, "1", version, root="INFO") == ErrorCode.INVALID_REQUEST
    assert dict(whole.controller.image.topics["t"].configs) == {"retention.ms": "77", "segment.ms": "5"}
    assert await replace(whole, TOPIC, "t", version, segment_bytes="100", segment_ms="5") == 0
    assert dict(whole.controller.image.topics["t"].configs) == {"segment.bytes": "100", "segment.ms": "5"}
    log = next(iter(whole.logs.all_logs()))
    assert (log.config.segment_bytes, log.config.retention_ms) == (100, 604_800_000)


async def test_a_broker_is_the_same_resource_however_its_number_is_written(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    resources = [
        alter_configs.AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=[]) for name in ("1", "01", "")
    ]
    responses = (await whole.ask(AlterConfigsRequest(resources=resources), 2)).responses
    assert [one.error_code for one in responses] == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, 0]
