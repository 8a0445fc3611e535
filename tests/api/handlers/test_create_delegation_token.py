"""CreateDelegationToken makes a token of its client, or of the owner that it names."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pytest

from pybroker.metadata.delegation_tokens import TOKEN_KIND
from pybroker.metadata.scram_users import ScramUsers
from pybroker.metadata.store.memory import MemoryStore
from pybroker.protocol.error_codes import ErrorCode
from pybroker.security.sasl.scram_credentials import SHA_256
from testing.scenes.api.whole import NOW_MS
from tests.api.tokens import ALICE, BOB, CAROL, HOUR_MS, KEY, be, create, described_ids, renew, with_tokens

DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize("version", range(4))
async def test_a_token_is_created(tmp_path: Path, version: int) -> None:
    whole = await with_tokens(tmp_path)
    token = await create(whole, BOB, version=version)
    assert token.error_code == 0
    assert (token.principal_type, token.principal_name) == ("User", "alice")
    assert token.hmac == hmac.digest(KEY.encode(), token.token_id.encode(), hashlib.sha512)
    times = (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms)
    assert times == (NOW_MS, NOW_MS + DAY_MS, NOW_MS + 7 * DAY_MS)
    requester = ("User", "alice") if version >= 3 else ("", "")
    assert (token.token_requester_principal_type, token.token_requester_principal_name) == requester


async def test_the_metadata_has_nothing_by_which_someone_could_log_in(tmp_path: Path) -> None:
    whole = await with_tokens(tmp_path)
    token = await create(whole, BOB, CAROL, owner="User:dave")
    assert dict(whole.controller.image.configs_of(TOKEN_KIND, token.token_id)) == {
        "owner": "User:dave",
        "requester": ALICE,
        "renewers": f'["{BOB}", "{CAROL}"]',
        "issued_ms": str(NOW_MS),
        "max_ms": str(NOW_MS + 7 * DAY_MS),
        "expires_ms": str(NOW_MS + DAY_MS),
    }


@pytest.mark.parametrize(("asked_ms", "expires_ms", "max_ms"), [(HOUR_MS, HOUR_MS, HOUR_MS), (90 * DAY_MS, DAY_MS, 7 * DAY_MS)])
async def test_a_life_is_bounded(tmp_path: Path, asked_ms: int, expires_ms: int, max_ms: int) -> None:
    token = await create(await with_tokens(tmp_path), lifetime_ms=asked_ms)
    assert (token.expiry_timestamp_ms, token.max_timestamp_ms) == (NOW_MS + expires_ms, NOW_MS + max_ms)


@pytest.mark.parametrize(
    ("principal", "protocol", "by_token"),
    [
        ("User:ANONYMOUS", "PLAINTEXT", False),
        (ALICE, "PLAINTEXT", False),
        ("User:ANONYMOUS", "SSL", False),
        (ALICE, "SASL_SSL", True),
    ],
)
async def test_a_client_without_a_proved_name_gets_none(tmp_path: Path, principal: str, protocol: str, by_token: bool) -> None:
    whole = await with_tokens(tmp_path)
    be(whole, principal, protocol, by_token=by_token)
    response = await create(whole, "Group:g", owner=BOB)
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert (response.principal_name, response.token_requester_principal_name) == ("bob", principal.partition(":")[2])
    assert (response.issue_timestamp_ms, response.token_id, response.hmac) == (-1, "", b"")


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
async def test_a_client_with_a_proved_name_gets_one(tmp_path: Path, protocol: str) -> None:
    whole = await with_tokens(tmp_path)
    be(whole, ALICE, protocol)
    assert (await create(whole)).error_code == 0


@pytest.mark.parametrize(("secret_key", "master_key", "is_on"), [(None, None, False), ("", "b", False), (None, "b", True)])
async def test_without_a_secret_key_there_are_none(
    tmp_path: Path, secret_key: str | None, master_key: str | None, is_on: bool
) -> None:
    whole = await with_tokens(tmp_path, delegation_token_secret_key=secret_key, delegation_token_master_key=master_key)
    assert (await create(whole)).error_code == (0 if is_on else ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    assert (await create(whole, "Group:g")).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE, "Kafka looks at this before"


@pytest.mark.parametrize(("renewer", "owner"), [("Group:g", None), (BOB, "Group:g"), (BOB, ":g")])
async def test_only_users_have_tokens(tmp_path: Path, renewer: str, owner: str | None) -> None:
    response = await create(await with_tokens(tmp_path), renewer, owner=owner)
    assert response.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


async def test_tokens_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybroker.metadata.delegation_tokens.TOKENS_MAX", 2)
    whole = await with_tokens(tmp_path)
    assert (await create(whole, f"User:{'x' * 4_096}")).error_code == ErrorCode.POLICY_VIOLATION
    codes = [(await create(whole, owner=owner)).error_code for owner in (BOB, ALICE, CAROL)]
    assert codes == [0, 0, ErrorCode.POLICY_VIOLATION]
    be(whole, BOB)
    assert (await create(whole)).error_code == 0
    assert len(await described_ids(whole, everyone=True)) == 3


async def test_every_broker_of_a_cluster_has_a_token(tmp_path: Path) -> None:
    store = MemoryStore()
    one = await with_tokens(tmp_path / "1", store=store)
    other = await with_tokens(tmp_path / "2", store=store, node_id=2)
    token = await create(one, BOB)
    be(other, BOB)
    assert (await renew(other, token.hmac, HOUR_MS)) == (0, NOW_MS + HOUR_MS)
    login = ScramUsers(lambda: one.controller.image, KEY).token(SHA_256, token.token_id)
    assert login is not None
    assert (login.owner, login.expires_ms) == ("alice", NOW_MS + HOUR_MS)
    assert ScramUsers(lambda: one.controller.image).token(SHA_256, token.token_id) is None, "it has no secret key"
