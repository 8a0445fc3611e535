"""Idempotent producers get ids, and requests that no coordinator has to see are refused."""

from __future__ import annotations

import pytest

from pybroker.api.handlers import init_producer_id
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import message_versions
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from testing.scenes.api.cluster import ClusterScene

VERSIONS = range(message_versions(ApiKey.INIT_PRODUCER_ID)[1] + 1)


def fields(response: InitProducerIdResponse) -> tuple[int, int, int]:
    return response.error_code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_call_gets_another_id(version: int) -> None:
    cluster = await ClusterScene().start()
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000)
    responses = [fields(await cluster.ask(init_producer_id.handle, version, request)) for _ in range(3)]
    assert responses == [(0, 0, 0), (0, 1, 0), (0, 2, 0)]


@pytest.mark.parametrize("version", range(3, VERSIONS.stop))
@pytest.mark.parametrize(
    ("producer_id", "epoch", "expected"),
    [(5, 7, (0, 0, 0)), (5, -1, (ErrorCode.INVALID_REQUEST, -1, -1)), (-1, 7, (ErrorCode.INVALID_REQUEST, -1, -1))],
)
async def test_a_producer_that_has_an_id(version: int, producer_id: int, epoch: int, expected: tuple[int, int, int]) -> None:
    cluster = await ClusterScene().start()
    request = InitProducerIdRequest(transactional_id=None, producer_id=producer_id, producer_epoch=epoch)
    assert fields(await cluster.ask(init_producer_id.handle, version, request)) == expected


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_empty_transactional_id_is_refused(version: int) -> None:
    cluster = await ClusterScene().start()
    response = await cluster.ask(init_producer_id.handle, version, InitProducerIdRequest(transactional_id=""))
    assert fields(response) == (ErrorCode.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize(
    ("flag", "code"),
    [("enable2_pc", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), ("keep_prepared_txn", ErrorCode.UNSUPPORTED_VERSION)],
)
async def test_two_phase_commit_is_not_enabled(flag: str, code: ErrorCode) -> None:
    cluster = await ClusterScene().start()
    response = await cluster.ask(init_producer_id.handle, 6, InitProducerIdRequest(transactional_id="tx", **{flag: True}))
    assert fields(response) == (code, -1, -1)


async def test_a_store_that_fails_is_an_error_in_the_response() -> None:
    cluster = await ClusterScene().start()
    await cluster.controller._store.close()
    response = await cluster.ask(init_producer_id.handle, 4, InitProducerIdRequest(transactional_id=None))
    assert fields(response) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
