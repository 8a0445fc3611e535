"""RenewDelegationToken (key 39), v0-2: let a token be valid for longer.

Behaviour
    The token expires after the period of the request, after `delegation.token.expiry.time.ms`, or at its end, whichever is first.
    A client that may have no tokens gets the errors of CreateDelegationToken. DELEGATION_TOKEN_NOT_FOUND for an unknown HMAC;
    DELEGATION_TOKEN_EXPIRED; DELEGATION_TOKEN_OWNER_MISMATCH to a client that is neither the owner nor a renewer.
Versions
    v2 flexible.
Not done
    Nothing.
Source: KafkaApis.handleRenewTokenRequest, DelegationTokenControlManager.renewDelegationToken; KIP-48.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.delegation_tokens import required_key
from pybroker.metadata.delegation_tokens import change_expiry
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.renew_delegation_token import RenewDelegationTokenResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
    from pybroker.security.tokens import Token


async def handle(broker: Services, context: RequestContext, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    """Renew the token, then respond."""
    secret_key, now_ms = required_key(broker, context), broker.clock.time_ms()
    period_ms = broker.config.delegation_token_expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)

    def new_expiry(token: Token) -> int:
        if token.is_expired(now_ms):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        if not token.may_be_renewed_by(context.connection.principal):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        return min(token.max_ms, now_ms + period_ms)

    expires_ms = await change_expiry(broker.controller, secret_key, bytes(request.hmac), new_expiry)
    return RenewDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=expires_ms or now_ms)
