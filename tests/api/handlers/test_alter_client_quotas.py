"""AlterClientQuotas sets and removes quotas, each entity on its own."""

from __future__ import annotations

from pathlib import Path

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from testing.scenes.api.whole import Whole
from tests.api.every_version import responses

RATE = "producer_byte_rate"


def entry(user: str, value: float | None) -> EntryData:
    op = OpData(key=RATE, value=value or 0.0, remove=value is None)
    return EntryData(entity=[EntityData(entity_type="user", entity_name=user)], ops=[op])


async def test_a_quota_is_set_and_removed(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await whole.ask(AlterClientQuotasRequest(entries=[entry("al", 1), entry("bo", 2)]), 1)
    await whole.ask(AlterClientQuotasRequest(entries=[entry("al", None), entry("bo", 3)], validate_only=True), 1)
    assert whole.controller.image.quotas.by_entity == {(("user", "al"),): {RATE: 1}, (("user", "bo"),): {RATE: 2}}
    await whole.ask(AlterClientQuotasRequest(entries=[entry("al", None)]), 1)
    assert whole.controller.image.quotas.by_entity == {(("user", "bo"),): {RATE: 2}}


async def test_what_cannot_be_is_an_error_of_its_entity(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    wrong = AlterClientQuotasRequest(entries=[entry("al", 0.5), entry("bo", 9)])
    for response in await responses(whole, wrong):
        assert [one.error_code for one in response.entries] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
        assert [one.entity for one in response.entries] == [one.entity for one in wrong.entries]
