"""DescribeClientQuotas finds none, as an Apache Kafka 3.9.2 without quotas."""

from __future__ import annotations

from pathlib import Path

from pybroker.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from testing.scenes.api.whole import Whole
from tests.api.every_version import responses


async def test_there_are_no_quotas(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    for components in ([], [ComponentData(entity_type="user", match_type=2, match=None)]):
        for response in await responses(whole, DescribeClientQuotasRequest(components=components)):
            assert (response.error_code, response.entries) == (0, [])
