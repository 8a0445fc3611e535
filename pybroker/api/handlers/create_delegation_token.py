"""CreateDelegationToken (key 38), v0-3: a token by which others log in as a user.

Behaviour
    The client gets the token's id and its HMAC, by which SCRAM logs in as the owner. The token is in the metadata store, without
    the HMAC. DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on a PLAINTEXT connection, without a certificate at an SSL listener, and to a
    client that has logged in by a token. DELEGATION_TOKEN_AUTH_DISABLED without `delegation.token.secret.key`.
    INVALID_PRINCIPAL_TYPE for a renewer, or an owner, that is no user. POLICY_VIOLATION for a requester with 10,000 tokens, and
    for a token above 4,096 bytes.
Versions
    v2 flexible. v3 an owner other than the client (KIP-373).
Not done
    Owners that are no users, which Kafka lets log in as users of the same name.
Source: KafkaApis.handleCreateTokenRequest, DelegationTokenControlManager.createDelegationToken; KIP-48.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.delegation_tokens import check_allowed, owner_of, refused, requester_fields, required_key
from pybroker.metadata.delegation_tokens import create_token
from pybroker.metadata.names import random_topic_id
from pybroker.model import topic_id_text
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from pybroker.security import principal
from pybroker.security.tokens import Token, hmac_of

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.protocol.messages.create_delegation_token import CreateDelegationTokenRequest


async def handle(
    broker: Services, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Create the token, then respond."""
    try:
        check_allowed(context)
        _check_principals(context, request)
        secret_key = required_key(broker, context)
        token = _token(broker, context, request)
        await create_token(broker.controller, token)
    except KafkaError as error:
        return refused(context, request, error.code)
    owner_type, owner = principal.parse(token.owner)
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.NONE,
        principal_type=owner_type,
        principal_name=owner,
        **requester_fields(context, token.requester),
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.token_id,
        hmac=hmac_of(secret_key, token.token_id),
    )


def _check_principals(context: RequestContext, request: CreateDelegationTokenRequest) -> None:
    owner_type, _, _ = owner_of(context, request).partition(principal.SEPARATOR)
    if {owner_type, *(one.principal_type for one in request.renewers)} != {principal.USER_TYPE}:
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)


def _token(broker: Services, context: RequestContext, request: CreateDelegationTokenRequest) -> Token:
    config, now_ms = broker.config, broker.clock.time_ms()
    lifetime_ms = config.delegation_token_max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    return Token(
        token_id=topic_id_text(random_topic_id()),
        owner=owner_of(context, request),
        requester=context.connection.principal,
        renewers=tuple(principal.user(one.principal_name) for one in request.renewers),
        issued_ms=now_ms,
        max_ms=now_ms + lifetime_ms,
        expires_ms=now_ms + min(lifetime_ms, config.delegation_token_expiry_time_ms),
    )
