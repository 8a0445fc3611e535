"""A broker with a secret key for delegation tokens, whose client has logged in as alice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pybroker.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from pybroker.protocol.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from pybroker.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from pybroker.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from pybroker.security.sasl.login import Login, Offer
from testing.scenes.api.whole import Whole

KEY = "the brokers' secret"
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"
HOUR_MS = 3_600_000


async def with_tokens(folder: Path, **config: Any) -> Whole:
    """Start such a broker."""
    whole = Whole(folder, **{"delegation_token_secret_key": KEY, **config})
    be(whole, ALICE)
    return await whole.start()


def be(whole: Whole, principal: str, protocol: str = "SASL_PLAINTEXT", *, by_token: bool = False) -> None:
    """Have the client be a principal that has logged in."""
    connection = whole.connection
    connection.principal, connection.security_protocol = principal, protocol
    connection.login = Login(Offer({}, {}), on_again=lambda _: None, clock=whole.clock)
    connection.login.is_by_token = by_token


async def create(whole: Whole, *renewers: str, owner: str | None = None, version: int = 3, lifetime_ms: int = -1) -> Any:
    owner_type, _, owner_name = (owner or "").partition(":")
    named = {} if owner is None else {"owner_principal_type": owner_type, "owner_principal_name": owner_name}
    pairs = (one.partition(":") for one in renewers)
    listed = [CreatableRenewers(principal_type=kind, principal_name=name) for kind, _, name in pairs]
    return await whole.ask(CreateDelegationTokenRequest(renewers=listed, max_lifetime_ms=lifetime_ms, **named), version)


async def renew(whole: Whole, hmac: bytes, period_ms: int = -1, version: int = 2) -> tuple[int, int]:
    response = await whole.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), version)
    return response.error_code, response.expiry_timestamp_ms


async def expire(whole: Whole, hmac: bytes, period_ms: int = -1, version: int = 2) -> tuple[int, int]:
    response = await whole.ask(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), version)
    return response.error_code, response.expiry_timestamp_ms


async def describe(whole: Whole, *owners: str, everyone: bool = False, version: int = 3) -> Any:
    """Return the response about the tokens of owners, or of `everyone`."""
    listed = [
        DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
        for kind, _, name in (one.partition(":") for one in owners)
    ]
    return await whole.ask(DescribeDelegationTokenRequest(owners=None if everyone else listed), version)


async def described_ids(whole: Whole, *owners: str, everyone: bool = False) -> set[str]:
    response = await describe(whole, *owners, everyone=everyone)
    assert response.error_code == 0
    return {token.token_id for token in response.tokens}
