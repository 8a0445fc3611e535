"""ExpireDelegationToken lets a token end."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.error_codes import ErrorCode
from testing.scenes.api.whole import NOW_MS
from tests.api.tokens import ALICE, BOB, CAROL, HOUR_MS, be, create, described_ids, expire, with_tokens


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("principal", [ALICE, BOB])
async def test_a_token_ends_later_or_at_once(tmp_path: Path, version: int, principal: str) -> None:
    whole = await with_tokens(tmp_path)
    token = await create(whole, BOB)
    be(whole, principal)
    assert await expire(whole, token.hmac, HOUR_MS, version) == (0, NOW_MS + HOUR_MS)
    assert await expire(whole, token.hmac, 900 * HOUR_MS, version) == (0, token.max_timestamp_ms)
    assert await expire(whole, token.hmac, 0, version) == (0, NOW_MS)
    assert await described_ids(whole, ALICE) == {token.token_id}
    assert await expire(whole, token.hmac, -1, version) == (0, NOW_MS)
    assert await described_ids(whole, ALICE) == set()
    assert await expire(whole, token.hmac, -1, version) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)


async def test_what_cannot_end(tmp_path: Path) -> None:
    whole = await with_tokens(tmp_path)
    token = await create(whole, BOB)
    whole.clock.advance(24 * HOUR_MS + 1)
    be(whole, CAROL)
    assert await expire(whole, token.hmac, 1) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1)
    be(whole, BOB)
    assert await expire(whole, token.hmac, 1) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1)
    assert await expire(whole, token.hmac, -1) == (0, whole.clock.time_ms())


async def test_without_a_secret_key_there_are_none(tmp_path: Path) -> None:
    whole = await with_tokens(tmp_path, delegation_token_secret_key=None)
    assert await expire(whole, b"h") == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, -1)
    be(whole, ALICE, "PLAINTEXT")
    assert await expire(whole, b"h") == (ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1)
