"""Quotas in the metadata store: changed in one commit, in an order, and read again."""

from __future__ import annotations

import asyncio

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.metadata.controller import Controller
from pybroker.metadata.quota_changes import CHANGES_MAX, QuotaChange, alter_quotas
from pybroker.metadata.quota_entries import decode_quotas
from pybroker.metadata.store.base import StoreError
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError

RATE = "producer_byte_rate"
BOB = (("user", "bob"),)


async def controller_of(store: MemoryStore) -> Controller:
    controller = Controller(store, BrokerConfig(node_id=1), broker_id=BrokerId(1))
    await controller.start("cluster-id")
    return controller


async def test_quotas_are_set_removed_and_read_again() -> None:
    store = MemoryStore()
    controller = await controller_of(store)
    both = [("client-id", None), ("user", "bob")]
    changes = [QuotaChange(BOB, [(RATE, 5.0), ("request_percentage", 2.5)]), QuotaChange(both, [(RATE, 7.0)])]
    assert await alter_quotas(controller, changes) == [None, None]
    assert (await controller_of(store)).image.quotas.by_entity == {
        BOB: {RATE: 5.0, "request_percentage": 2.5},
        (("user", "bob"), ("client-id", None)): {RATE: 7.0},
    }
    assert await alter_quotas(controller, [QuotaChange(both, [(RATE, None), ("request_percentage", None)])]) == [None]
    assert set(controller.image.quotas.by_entity) == {BOB}
    revision = controller.image.revision
    assert await alter_quotas(controller, [QuotaChange(BOB, [(RATE, 5.0)])]) == [None]
    assert controller.image.revision == revision, "it is so"


async def test_a_change_that_is_only_checked_changes_nothing() -> None:
    controller = await controller_of(MemoryStore())
    assert await alter_quotas(controller, [QuotaChange(BOB, [(RATE, 5.0)])], validate_only=True) == [None]
    assert not controller.image.quotas


async def test_changes_at_once_are_all_made() -> None:
    controller = await controller_of(MemoryStore())
    keys = [RATE, "consumer_byte_rate", "request_percentage"]
    await asyncio.gather(*(alter_quotas(controller, [QuotaChange(BOB, [(key, 3.0)])]) for key in keys))
    assert controller.image.quotas.by_entity[BOB] == dict.fromkeys(keys, 3.0)


@pytest.mark.parametrize(
    "wrong",
    [
        QuotaChange([], [(RATE, 1.0)]),
        QuotaChange(BOB, [(RATE, 1.0), (RATE, None)]),
        QuotaChange(BOB, [("no_such_rate", 1.0)]),
        QuotaChange([("ip", "not an address")], [("connection_creation_rate", 1.0)]),
    ],
)
async def test_a_wrong_change_does_not_keep_others_from_being_made(wrong: QuotaChange) -> None:
    controller = await controller_of(MemoryStore())
    error, none = await alter_quotas(controller, [wrong, QuotaChange([("user", "al")], [(RATE, 1.0)])])
    assert error is not None
    assert (error.code, none) == (ErrorCode.INVALID_REQUEST, None)
    assert set(controller.image.quotas.by_entity) == {(("user", "al"),)}


async def test_too_many_changes_are_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        await alter_quotas(await controller_of(MemoryStore()), [QuotaChange(BOB, [])] * (CHANGES_MAX + 1))
    assert refused.value.code == ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("value", [b"", b"[]", b'{"entity": {}, "quotas": {}}', b'{"entity": {"user": "b"}}'])
def test_an_entry_of_another_form_is_an_error(value: bytes) -> None:
    with pytest.raises(StoreError, match="quotas/x"):
        decode_quotas("quotas/x", value)
