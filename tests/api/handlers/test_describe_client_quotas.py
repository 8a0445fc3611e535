"""DescribeClientQuotas finds quotas by filters, as an Apache Kafka 3.9.2 does."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from pybroker.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from testing.scenes.api.whole import Whole
from tests.api.every_version import responses

RATE = "producer_byte_rate"
EXACT, DEFAULT, SPECIFIED = range(3)


def entry(value: float | None, **parts: str | None) -> EntryData:
    entity = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in parts.items()]
    return EntryData(entity=entity, ops=[OpData(key=RATE, value=value or 0.0, remove=value is None)])


async def scene(tmp_path: Path) -> Whole:
    whole = await Whole(tmp_path).start()
    entries = [entry(1, user="al"), entry(2, user=None), entry(3, client_id="c", user="al"), entry(4, client_id="c")]
    response = await whole.ask(AlterClientQuotasRequest(entries=entries), 1)
    assert [(one.error_code, one.entity) for one in response.entries] == [(0, one.entity) for one in entries]
    return whole


async def values(whole: Whole, *components: ComponentData, strict: bool = False) -> list[float]:
    found = set()
    for response in await responses(whole, DescribeClientQuotasRequest(components=list(components), strict=strict)):
        assert response.error_code == 0
        found.add(tuple(value.value for one in response.entries for value in one.values))
    (one,) = found
    return sorted(one)


async def test_filters_find_entities(tmp_path: Path) -> None:
    whole = await scene(tmp_path)
    al = ComponentData(entity_type="user", match_type=EXACT, match="al")
    any_user = ComponentData(entity_type="user", match_type=SPECIFIED, match=None)
    default = ComponentData(entity_type="user", match_type=DEFAULT, match=None)
    any_client = ComponentData(entity_type="client-id", match_type=SPECIFIED, match=None)
    assert await values(whole) == [1, 2, 3, 4]
    assert await values(whole, strict=True) == []
    assert await values(whole, al) == [1, 3]
    assert await values(whole, al, strict=True) == [1]
    assert await values(whole, any_user) == [1, 2, 3]
    assert await values(whole, default) == [2]
    assert await values(whole, any_user, any_client, strict=True) == [3]
    assert await values(whole, any_client, strict=True) == [4]


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ([("", EXACT, "a")], ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
        ([("group", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group"),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST, "MATCH_TYPE_EXACT, but set match string to null"),
        ([("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST, "MATCH_TYPE_DEFAULT, but also specified a match string"),
        ([("user", 9, None)], ErrorCode.INVALID_REQUEST, "Unknown match type 9"),
        ([("user", EXACT, "a"), ("user", EXACT, "b")], ErrorCode.INVALID_REQUEST, "cannot appear more than once"),
        ([("user", EXACT, "a"), ("ip", DEFAULT, None)], ErrorCode.INVALID_REQUEST, "IP filter component should not"),
    ],
)
async def test_a_filter_that_makes_no_sense_is_refused(
    tmp_path: Path, components: list[tuple[str, int, str | None]], code: ErrorCode, message: str
) -> None:
    whole = await Whole(tmp_path).start()
    wanted = [ComponentData(entity_type=kind, match_type=how, match=match) for kind, how, match in components]
    for response in await responses(whole, DescribeClientQuotasRequest(components=wanted)):
        assert (response.error_code, response.entries) == (code, [])
        assert message in response.error_message
