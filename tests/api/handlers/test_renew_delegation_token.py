"""RenewDelegationToken lets a token be valid for longer, within its life."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.error_codes import ErrorCode
from testing.scenes.api.whole import NOW_MS
from tests.api.tokens import ALICE, BOB, CAROL, HOUR_MS, be, create, describe, renew, with_tokens


@pytest.mark.parametrize("version", range(3))
async def test_a_token_is_renewed_by_its_owner_and_its_renewers(tmp_path: Path, version: int) -> None:
    whole = await with_tokens(tmp_path)
    token = await create(whole, BOB, lifetime_ms=48 * HOUR_MS)
    whole.clock.advance(HOUR_MS)
    for principal, period_ms, expires_ms in ((ALICE, -1, 25), (BOB, HOUR_MS, 2), (BOB, 90 * HOUR_MS, 25)):
        be(whole, principal)
        assert await renew(whole, token.hmac, period_ms, version) == (0, NOW_MS + expires_ms * HOUR_MS)
        (described,) = (await describe(whole, ALICE)).tokens
        assert described.expiry_timestamp == NOW_MS + expires_ms * HOUR_MS
    whole.clock.advance(24 * HOUR_MS)
    assert await renew(whole, token.hmac, version=version) == (0, token.max_timestamp_ms)


async def test_what_cannot_be_renewed(tmp_path: Path) -> None:
    whole = await with_tokens(tmp_path)
    own, for_carol = await create(whole), await create(whole, owner=CAROL)
    assert await renew(whole, b"other") == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)
    assert await renew(whole, for_carol.hmac) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1), "a requester is no renewer"
    whole.clock.advance(24 * HOUR_MS)
    assert (await renew(whole, own.hmac))[0] == 0, "it expires after this ms"
    whole.clock.advance(24 * HOUR_MS + 1)
    be(whole, BOB)
    assert await renew(whole, own.hmac) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1)
    be(whole, ALICE, by_token=True)
    assert await renew(whole, own.hmac) == (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1)


async def test_without_a_secret_key_there_are_none(tmp_path: Path) -> None:
    whole = await with_tokens(tmp_path, delegation_token_secret_key=None)
    assert await renew(whole, b"h") == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, -1)
