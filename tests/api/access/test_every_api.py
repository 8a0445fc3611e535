"""A broker whose authorizer denies everything: no API changes anything or reveals a name, for each API of the table.

The requests are made from the declarations of the messages: each text is the name of a resource, and each list has one element.
The same requests name what exists and what does not, and must get the same responses.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pybroker.api.access.need import Request
from pybroker.api.access.table import TABLE
from pybroker.api.registry import APIS, load_api
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from testing.scenes.api.whole import Whole, collected, settled
from testing.wire.examples import example
from tests.api.access.scenes import SECRET, with_secrets

ABSENT = "absent"
REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
WAYS_OF_THEIR_OWN = {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA}
"""They call the handler with what is refused taken out, or noted."""

WITHOUT_A_PLACE = {(ApiKey.DESCRIBE_LOG_DIRS, 0), (ApiKey.DESCRIBE_LOG_DIRS, 1), (ApiKey.DESCRIBE_LOG_DIRS, 2)}
"""Their responses have no place for an error, so they are empty."""

NAMED_FROM = {ApiKey.CREATE_DELEGATION_TOKEN: 3}
"""The first version that names what may be refused."""

REFUSING = sorted(key for key, access in TABLE.items() if key in APIS and any(not need.hides for need in access.needs))
"""The APIs that refuse something: others only leave it out."""

VARIANTS: dict[ApiKey, list[dict[str, Any]]] = {
    ApiKey.FIND_COORDINATOR: [{"key_type": key_type} for key_type in (0, 1)],
    ApiKey.DESCRIBE_CONFIGS: [{"resource_type": one} for one in (2, 4, 8, 16, 32)],
    ApiKey.ALTER_CONFIGS: [{"resource_type": one} for one in (2, 4, 16, 32)],
    ApiKey.INCREMENTAL_ALTER_CONFIGS: [{"resource_type": one} for one in (2, 4, 8, 16, 32)],
    ApiKey.INIT_PRODUCER_ID: [{}, {"transactional_id": None}],
    ApiKey.FETCH: [{}, {"replica_id": 2}],
    ApiKey.PRODUCE: [{"transactional_id": None}],
}


def state(whole: Whole) -> Any:
    """Return what requests may change."""
    logs = {str(log.topic_partition): log.log_end_offset for log in whole.logs.all_logs()}
    groups = whole.groups.list_groups(None, None)
    assert not isinstance(groups, ErrorCode)
    return id(whole.controller.image), logs, [repr(group) for group in groups]


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the requests that have reached a handler."""
    seen: list[Any] = []
    plain = Request.plain

    def noted(request: Request, message: Any) -> Any:
        seen.append(message)
        return plain(request, message)

    monkeypatch.setattr(Request, "plain", noted)
    return seen


async def response_to(whole: Whole, request: Any, version: int) -> tuple[Any, bytes]:
    sent = await settled(whole.send(request, version))
    assert sent is not None
    data = collected(sent)
    return whole.read(data, request, version), data


@pytest.mark.parametrize("key", REFUSING, ids=lambda key: APIS[key].name)
async def test_what_is_named_is_refused_whether_or_not_it_exists(key: ApiKey, tmp_path: Path, handled: list[Any]) -> None:
    whole, seen, api = await with_secrets(tmp_path), handled, load_api(key)
    seen.clear()
    topic_id = whole.controller.image.topics[SECRET].topic_id
    before = state(whole)
    for version in range(NAMED_FROM.get(key, api.lowest), api.highest + 1):
        for values in VARIANTS.get(key, [{}]):
            responses = []
            for name in (SECRET, ABSENT):
                request = example(api.request, version, name, topic_id=topic_id if by_id(key, version) else bytes(16), **values)
                response, data = await response_to(whole, request, version)
                codes = {code for code in api.error_codes(response) if code}
                assert codes or (key, version) in WITHOUT_A_PLACE, (version, values, response)
                assert codes <= REFUSALS, (version, values, response)
                assert SECRET.encode() not in data.replace(name.encode(), b"")
                responses.append(by_name(response, name))
            assert responses[0] == responses[1]
            assert key in WAYS_OF_THEIR_OWN or not seen, (version, values)
    assert state(whole) == before


def by_id(key: ApiKey, version: int) -> bool:
    """Return whether requests name topics by their ids only. An id is no secret."""
    return (key, version) in {
        (ApiKey.PRODUCE, 13),
        *((ApiKey.FETCH, version) for version in range(13, 19)),
        (ApiKey.OFFSET_COMMIT, 10),
    }


def by_name(response: Any, name: str) -> str:
    return re.sub(" at 0x[0-9a-f]+", "", repr(response)).replace(name, "NAME")


@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: APIS[key].name)
async def test_what_asks_for_everything_learns_no_name(key: ApiKey, tmp_path: Path) -> None:
    whole, api = await with_secrets(tmp_path), load_api(key)
    before = state(whole)
    for version in range(api.lowest, api.highest + 1):
        request = example(api.request, version, "", is_open=True)
        sent = await settled(whole.send(request, version))
        assert sent is None or SECRET.encode() not in collected(sent), version
    assert state(whole) == before


def test_the_table_has_each_api_that_is_served() -> None:
    assert APIS.keys() <= TABLE.keys()
