"""ExpireDelegationToken (key 40), v0-2: let a token end, now or after a time.

Behaviour
    A negative period removes the token at once, also one that has expired. Otherwise the token expires after the period, or at
    its end. The errors are those of RenewDelegationToken; a token of others is DELEGATION_TOKEN_OWNER_MISMATCH whether or not it
    has expired. A connection that has logged in by the token before stays open until the expiry that the token had then.
Versions
    v2 flexible.
Not done
    Nothing.
Source: KafkaApis.handleExpireTokenRequest, DelegationTokenControlManager.expireDelegationToken; KIP-48.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.delegation_tokens import required_key
from pybroker.metadata.delegation_tokens import change_expiry
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.expire_delegation_token import ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
    from pybroker.security.tokens import Token


async def handle(
    broker: Services, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Let the token end, then respond."""
    secret_key, now_ms, period_ms = required_key(broker, context), broker.clock.time_ms(), request.expiry_time_period_ms

    def new_expiry(token: Token) -> int | None:
        if not token.may_be_renewed_by(context.connection.principal):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        if period_ms < 0:
            return None
        if token.is_expired(now_ms):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return min(token.max_ms, now_ms + period_ms)

    expires_ms = await change_expiry(broker.controller, secret_key, bytes(request.hmac), new_expiry)
    return ExpireDelegationTokenResponse(
        error_code=ErrorCode.NONE, expiry_timestamp_ms=now_ms if expires_ms is None else expires_ms
    )
