"""DescribeDelegationToken describes tokens of those that the client may see."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.broker.token_expiry import TokenExpiry
from pybroker.config.acl_settings import AUTHORIZERS
from pybroker.protocol.error_codes import ErrorCode
from pybroker.security.acl.binding import AclOperation, ResourceType
from testing.scenes.api.whole import NOW_MS, Whole
from tests.api.access.scenes import allow
from tests.api.tokens import ALICE, BOB, CAROL, HOUR_MS, be, create, describe, described_ids, with_tokens


@pytest.mark.parametrize("version", range(4))
async def test_a_token_is_described(tmp_path: Path, version: int) -> None:
    whole = await with_tokens(tmp_path)
    created = await create(whole, CAROL, owner=BOB)
    (token,) = (await describe(whole, everyone=True, version=version)).tokens
    assert (token.token_id, token.hmac) == (created.token_id, created.hmac)
    assert (token.principal_type, token.principal_name) == ("User", "bob")
    requester = ("User", "alice") if version >= 3 else ("", "")
    assert (token.token_requester_principal_type, token.token_requester_principal_name) == requester
    assert [(one.principal_type, one.principal_name) for one in token.renewers] == [("User", "carol")]
    times = (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp)
    assert times == (NOW_MS, created.expiry_timestamp_ms, created.max_timestamp_ms)


async def test_the_tokens_of_owners_requesters_and_renewers_are_described(tmp_path: Path) -> None:
    whole = await with_tokens(tmp_path)
    own, of_bob = (await create(whole)).token_id, (await create(whole, CAROL, owner=BOB)).token_id
    assert await described_ids(whole, everyone=True) == await described_ids(whole, ALICE) == {own, of_bob}
    assert await described_ids(whole, BOB) == await described_ids(whole, CAROL, "User:x") == {of_bob}
    assert await described_ids(whole, "User:x", "Group:bob") == await described_ids(whole) == set()


async def test_a_client_that_may_have_no_tokens_sees_none(tmp_path: Path) -> None:
    whole = await with_tokens(tmp_path)
    await create(whole)
    be(whole, ALICE, by_token=True)
    response = await describe(whole, everyone=True)
    assert (response.error_code, response.tokens) == (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, [])
    without = await with_tokens(tmp_path / "other", delegation_token_secret_key=None)
    assert (await describe(without, everyone=True)).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


async def guarded(folder: Path) -> Whole:
    return await with_tokens(folder, authorizer_class_name=AUTHORIZERS[0], super_users="User:admin")


async def test_with_an_authorizer_a_client_creates_tokens_of_others_only_with_a_permission(tmp_path: Path) -> None:
    whole = await guarded(tmp_path)
    assert (await create(whole)).error_code == (await create(whole, owner=ALICE)).error_code == 0
    refused = await create(whole, owner=BOB)
    assert (refused.error_code, refused.principal_name) == (ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "bob")
    await allow(whole, ResourceType.USER, BOB, AclOperation.CREATE_TOKENS, principal=ALICE)
    assert (await create(whole, owner=BOB)).error_code == 0
    assert (await create(whole, owner=CAROL)).error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    be(whole, ALICE, "PLAINTEXT")
    assert (await create(whole, owner=CAROL)).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize("version", range(4))
async def test_with_an_authorizer_a_client_sees_its_own_tokens_and_those_it_may_describe(tmp_path: Path, version: int) -> None:
    whole = await guarded(tmp_path)
    be(whole, "User:admin")
    renewed, of_bob, of_carol = [
        (await create(whole, *renewers, owner=owner)).token_id for renewers, owner in (((ALICE,), BOB), ((), BOB), ((), CAROL))
    ]

    async def seen() -> set[str]:
        return {token.token_id for token in (await describe(whole, everyone=True, version=version)).tokens}

    assert await seen() == {renewed, of_bob, of_carol}, "the requester's, in versions without it too"
    be(whole, ALICE)
    assert await seen() == {renewed}
    await allow(whole, ResourceType.DELEGATION_TOKEN, of_carol, AclOperation.DESCRIBE, principal=ALICE)
    assert await seen() == {renewed, of_carol}
    await allow(whole, ResourceType.USER, BOB, AclOperation.DESCRIBE_TOKENS, principal=ALICE)
    assert await seen() == {renewed, of_bob, of_carol}


async def test_the_controller_removes_what_has_expired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybroker.metadata.delegation_tokens._REMOVED_AT_ONCE", 2)
    whole = await with_tokens(tmp_path)
    for _ in range(5):
        await create(whole, lifetime_ms=HOUR_MS)
    kept = (await create(whole)).token_id
    expiry = TokenExpiry(whole.controller, whole.clock)
    whole.clock.advance(HOUR_MS)
    await expired(expiry)
    assert len(await described_ids(whole, ALICE)) == 6
    whole.clock.advance(1)
    await expired(expiry)
    assert await described_ids(whole, ALICE) == {kept}


async def expired(expiry: TokenExpiry) -> None:
    expiry.look()
    expiry.look()
    assert expiry.task is not None
    await expiry.task
